import Foundation
import ProductVersion
import TestSupport
import WorkerProtocol

/// What the process boundary costs: key restorations through a `paytokend-hsm`, pipelined as the daemon does it, against
/// the same in this process, pipelined and bare, in turns. Prints a line for each turn: who, restorations, seconds, seconds of
/// processor time of both processes.
///
///     boundary-price MODULE TOKEN-LABEL PIN-FILE WORKER-PROGRAM SESSIONS ROUNDS SECONDS
///
/// The token is one of its own for this: it gets a merchant's key. Exit status 1 when an answer is wrong.
@main
struct BoundaryPrice {
    static func main() {
        let arguments = CommandLine.arguments
        guard arguments.count == 8, let sessions = UInt16(arguments[5]), let rounds = Int(arguments[6]),
            let seconds = Double(arguments[7]), sessions > 0
        else {
            say("usage: boundary-price MODULE TOKEN-LABEL PIN-FILE WORKER-PROGRAM SESSIONS ROUNDS SECONDS")
            exit(64)
        }
        let opening = HSMTokenOpening(
            programVersion: ProductVersion.current, modulePath: arguments[1], tokenURI: "pkcs11:token=\(arguments[2])",
            pinFile: arguments[3], sessions: sessions, initializationString: "", allowExtractableSecret: true)
        do {
            let worker = try WorkerProcess(program: arguments[4])
            let work = try Work(key: worker.open(opening))
            let within = try WithinProcess(opening)
            let inFlight = Int(sessions) * 8
            for _ in 0..<rounds {
                try report("worker", of: worker, seconds) { try worker.restore(work, inFlight: inFlight, until: $0) }
                try report("within", of: worker, seconds) { try within.handedOver(work, inFlight: inFlight, until: $0) }
                try report("bare", of: worker, seconds) { try within.bare(work, until: $0) }
            }
        } catch {
            say("boundary-price: \(error)")
            _exit(1)
        }
        // Not by return: the library's destructors are not trusted.
        _exit(0)
    }

    private static func report(
        _ who: String, of worker: WorkerProcess, _ seconds: Double, _ run: (ContinuousClock.Instant) throws -> Int
    ) throws {
        let (began, before) = (ContinuousClock.now, ProcessorTime.used(by: worker.identifier))
        let count = try run(began + .seconds(seconds))
        let (took, after) = (ContinuousClock.now - began, ProcessorTime.used(by: worker.identifier))
        // Not by print: the program ends without flushing what that keeps.
        FileHandle.standardOutput.write(Data("\(who) \(count) \(took / .seconds(1)) \(after - before)\n".utf8))
    }
}

func say(_ text: String) {
    FileHandle.standardError.write(Data((text + "\n").utf8))
}
