import Glibc
import TestSupport
import WorkerProtocol

/// Transactions for one merchant key, made before the clock starts, and what they hold.
struct Work: Sendable {
    private let payments: [EncryptedPayment]

    /// - Parameter key: an EC key's SubjectPublicKeyInfo in DER.
    init(key: [UInt8]) throws {
        // Apple's payloads have about 300 bytes.
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

/// Seconds of processor time, of user and system.
enum ProcessorTime {
    /// By this process and another one, from getrusage(2) and proc(5).
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
        // What follows the name, which may contain anything: state, parent …
        let line = String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        guard let end = line.lastIndex(of: ")") else { return 0 }
        let fields = line[end...].split(separator: " ")
        return fields.count > 13 ? (Double(fields[12]) ?? 0) + (Double(fields[13]) ?? 0) : 0
    }
}
