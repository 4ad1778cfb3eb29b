import Foundation
import Glibc
import ProductVersion
import TestSupport
import WorkerLink
import WorkerProtocol

/// Measures the cost of the boundary between the daemon's process and its worker. It restores keys in three ways in
/// turn: through a `paytokend-hsm`, pipelined as the daemon does; in this process, pipelined; and in this process,
/// directly. After each turn it prints a line: the way's name, the number of restorations, the seconds, and the seconds
/// of processor time of both processes.
///
///     boundary-price MODULE TOKEN-LABEL PIN-FILE WORKER-PROGRAM SESSIONS ROUNDS SECONDS
///
/// Use a separate HSM token, because the program generates a merchant's key in it. The exit status is 1 if an answer is
/// wrong.
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
            _ = try worker.open(opening)
            let work = try Work(
                key: worker.generateKey(KeyGeneration(merchantIdentifier: "merchant.test", algorithm: .ec)))
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
        // The program does not return, because a PKCS#11 library's destructors may crash.
        _exit(0)
    }

    private static func report(
        _ who: String, of worker: WorkerProcess, _ seconds: Double, _ run: (ContinuousClock.Instant) throws -> Int
    ) throws {
        let (began, before) = (ContinuousClock.now, ProcessorTime.used(by: worker.identifier))
        let count = try run(began + .seconds(seconds))
        let (took, after) = (ContinuousClock.now - began, ProcessorTime.used(by: worker.identifier))
        // `print` has a buffer that `_exit` does not flush.
        FileHandle.standardOutput.write(Data("\(who) \(count) \(took / .seconds(1)) \(after - before)\n".utf8))
    }
}

func say(_ text: String) {
    FileHandle.standardError.write(Data((text + "\n").utf8))
}

/// Transactions for one merchant key with their plaintexts, which are made before the measurement starts.
struct Work: Sendable {
    private let payments: [EncryptedPayment]

    /// Makes 256 transactions for a merchant's key.
    ///
    /// - Parameter key: the SubjectPublicKeyInfo of a P-256 key in DER.
    init(key: [UInt8]) throws {
        // Apple's payloads have about 300 bytes, so the plaintexts have 304.
        payments = try (0..<256).map { _ in
            try EncryptedPayment(ec: key, plaintext: (0..<304).map { _ in .random(in: .min ... .max) })
        }
    }

    func request(_ number: Int) -> WorkerRequest {
        let payment = payments[number % payments.count]
        return .decrypt(
            Decryption(
                publicKeyHash: payment.publicKeyHash, scheme: .ecV1, keyMaterial: payment.keyMaterial,
                otherInfo: payment.otherInfo, ciphertext: payment.ciphertext))
    }

    func isRight(_ answer: WorkerAnswer, _ number: Int) -> Bool {
        guard case .plaintext(let plaintext, _, _) = answer else { return false }
        return plaintext == payments[number % payments.count].plaintext
    }
}

/// Processor time in seconds, user and system together.
enum ProcessorTime {
    /// The processor time of this process and another one, from getrusage(2) and proc(5).
    static func used(by process: pid_t) -> Double {
        var usage = rusage()
        guard unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 else { return 0 }
        let own =
            Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + Double(
                usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
        return own + ticks(process) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    private static func ticks(_ process: pid_t) -> Double {
        guard let file = unsafe fopen("/proc/\(process)/stat", "r") else { return 0 }
        defer { unsafe fclose(file) }
        var text = [CChar](repeating: 0, count: 4096)
        let count = unsafe fread(&text, 1, text.count - 1, file)
        // The fields follow the name in parentheses, which may contain any character. They begin with state and parent.
        let line = String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        guard let end = line.lastIndex(of: ")") else { return 0 }
        let fields = line[end...].split(separator: " ")
        return fields.count > 13 ? (Double(fields[12]) ?? 0) + (Double(fields[13]) ?? 0) : 0
    }
}
