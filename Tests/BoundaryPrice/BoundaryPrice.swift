import Foundation
import HSMWorker
import ProductVersion
import TestSupport
import WorkerProtocol

/// What the process boundary costs: key restorations through a `paytokend-hsm`, pipelined as the daemon does it, against
/// the same in this process, in turns. Prints a line for each turn: who, restorations, seconds, seconds of processor time.
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
        let opening = TokenOpening(
            programVersion: ProductVersion.current, modulePath: arguments[1], tokenURI: "pkcs11:token=\(arguments[2])",
            pinFile: arguments[3], sessions: sessions, initializationString: "", allowExtractableSecret: true)
        do {
            let worker = try WorkerProcess(program: arguments[4])
            let work = try Work(key: worker.open(opening))
            let token = try InProcessToken(opening)
            for _ in 0..<rounds {
                try report("worker", work) { try worker.restore(work, inFlight: Int(sessions) * 8, until: $0) }
                try report("within", work) { threads(token, Int(sessions), work, until: $0) }
            }
            func report(_ who: String, _ work: Work, _ run: (ContinuousClock.Instant) throws -> Int) throws {
                let (began, before) = (ContinuousClock.now, ProcessorTime.used(by: worker.identifier))
                let count = try run(began + .seconds(seconds))
                let (took, after) = (ContinuousClock.now - began, ProcessorTime.used(by: worker.identifier))
                // Not by print: the program ends without flushing what that keeps.
                let line = "\(who) \(count) \(took / .seconds(1)) \(after - before)\n"
                FileHandle.standardOutput.write(Data(line.utf8))
            }
        } catch {
            say("boundary-price: \(error)")
            _exit(1)
        }
        // Not by return: the library's destructors are not trusted.
        _exit(0)
    }

    /// Every session has a thread that makes one call after the other.
    private static func threads(
        _ token: InProcessToken, _ sessions: Int, _ work: Work, until end: ContinuousClock.Instant
    ) -> Int {
        let counts = Counts()
        DispatchQueue.concurrentPerform(iterations: sessions) { session in
            var number = session
            var count = 0
            while ContinuousClock.now < end {
                guard work.isRight(token.answer(work.request(number), in: session), number) else {
                    say("boundary-price: a wrong answer within the process")
                    _exit(1)
                }
                number += sessions
                count += 1
            }
            counts.add(count)
        }
        return counts.total
    }
}

func say(_ text: String) {
    FileHandle.standardError.write(Data((text + "\n").utf8))
}
