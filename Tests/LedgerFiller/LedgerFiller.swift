import AuditChain
import Foundation
import Ledger
import PKCS11
import SecretMemory

/// Fills the ledger of a daemon that is not running with releases' records, sealed with the daemon's own audit key:
/// what `scripts/soak records` measures a long record with.
///
///     ledger-filler LEDGER COUNT MODULE TOKEN-LABEL PIN-FILE
///
/// SOFTHSM2_CONF must be set as for the daemon's worker.
@main
struct LedgerFiller {
    static func main() async {
        let arguments = CommandLine.arguments
        guard arguments.count == 6, let count = Int(arguments[2]), count > 0 else {
            say("usage: ledger-filler LEDGER COUNT MODULE TOKEN-LABEL PIN-FILE")
            exit(64)
        }
        do {
            let key = try SealingKey(
                module: arguments[3], label: arguments[4], pin: SecretBytes(contentsOfFile: arguments[5]))
            // What is waiting at once, below, must fit into the queue.
            let ledger = try await SQLiteLedger.open(
                SQLiteLedger.Settings(path: arguments[1], waiting: 2 * sealedTogether))
            try await fill(ledger, with: count, sealedBy: key)
            await ledger.close()
        } catch {
            say("ledger-filler: \(error)")
            exit(1)
        }
    }

    /// As the daemon does: a checkpoint after 1,000 records.
    private static let sealedTogether = CheckpointSchedule<ContinuousClock.Instant>.maximumRecords

    private static func fill(_ ledger: SQLiteLedger, with count: Int, sealedBy key: SealingKey) async throws {
        var random = SystemRandomNumberGenerator()
        var left = count
        while left > 0 {
            let together = min(left, sealedTogether)
            let records = (0..<together).map { _ in release(using: &random) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for record in records { group.addTask { _ = try await ledger.append(record) } }
                try await group.waitForAll()
            }
            let head = try await ledger.head()
            guard let checkpoint = head.checkpoint(at: AuditTime(Date()), keyId: key.checkpointKey.keyId) else {
                throw FillerFailure("the ledger has no record after \(together) were written")
            }
            try await ledger.insert(checkpoint.signed(by: key.sign))
            left -= together
        }
    }

    /// A record as a release leaves it, of the usual length.
    private static func release(using random: inout SystemRandomNumberGenerator) -> AuditRecord {
        AuditRecord(
            time: AuditTime(Date()), event: .decrypt(reference: digest(&random)),
            caller: AuditCaller(name: AuditText("checkout"), uid: 1001, gid: 1001, pid: 4242, comm: AuditText("node")),
            merchant: AuditText("merchant.com.example.shop"), publicKeyHash: merchantKey,
            transactionId: digest(&random), protection: .c, token: AuditText("primary"))
    }

    private static let merchantKey = AuditDigest.of("a merchant's key".utf8)

    private static func digest(_ random: inout SystemRandomNumberGenerator) -> AuditDigest {
        AuditDigest.of((0..<4).flatMap { _ in withBytes(of: random.next()) })
    }

    private static func withBytes(of number: UInt64) -> [UInt8] {
        stride(from: 0, to: 64, by: 8).map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    private static func say(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
    }
}

/// Why nothing was filled.
struct FillerFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
