import AuditChain
import Crypto
import Foundation
import Ledger
import Locks
import PKCS11
import PostgreSQLClient
import PostgreSQLLedger
import SQLiteLedger
import SecretMemory

/// Fills the ledger of a daemon that is not running with audit records of releases, sealed with the daemon's audit key.
/// `scripts/soak records` uses it to measure a long audit record.
///
///     ledger-filler LEDGER COUNT MODULE TOKEN-LABEL PIN-FILE
///     ledger-filler old LEDGER COUNT DAYS
///     ledger-filler seal LEDGER COUNT DAYS MODULE TOKEN-LABEL PIN-FILE
///
/// `old` begins a ledger with audit records of DAYS days ago, before an audit key exists. Once the daemon has made its
/// audit key, `seal` makes the audit checkpoints that the daemon would have made at that time. The audit records are
/// then old enough to be archived (`scripts/soak archives`).
///
/// LEDGER is a file, or the URL of a database in which the daemon is node-1. SOFTHSM2_CONF must have the value that the
/// daemon's worker uses.
@main
struct LedgerFiller {
    static func main() async {
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            say("ledger-filler: \(error)")
            exit(1)
        }
    }

    private static func run(_ arguments: [String]) async throws {
        let isOld = arguments.first == "old" || arguments.first == "seal"
        let rest = isOld ? Array(arguments.dropFirst()) : arguments
        let wanted = arguments.first == "old" ? 3 : arguments.first == "seal" ? 6 : 5
        guard rest.count == wanted, let count = Int(rest[1]), count > 0, let days = isOld ? Int(rest[2]) : 0 else {
            say("usage: ledger-filler [old | seal] LEDGER COUNT [DAYS] [MODULE TOKEN-LABEL PIN-FILE]")
            exit(64)
        }
        let time = Date(timeIntervalSinceNow: -86_400 * Double(days))
        let ledger = try await open(rest[0])
        if arguments.first == "old" {
            try await fill(ledger, with: count, at: time)
        } else {
            let place = rest.suffix(3).map(\.self)
            let key = try SealingKey(module: place[0], label: place[1], pin: SecretBytes(contentsOfFile: place[2]))
            if isOld {
                try await seal(ledger, through: count, at: time, by: key)
            } else {
                try await fill(ledger, with: count, at: time, sealedBy: key)
            }
        }
        await ledger.close()
    }

    private static func open(_ place: String) async throws -> any Ledger {
        // The number of simultaneous commits below must fit into the database's queue.
        if place.hasPrefix("postgresql:") {
            return try await PostgreSQLLedger.open(
                PostgreSQLLedger.Settings(
                    url: PostgreSQLURL(place), node: "node-1", waiting: 2 * sealedTogether, timeout: .seconds(60)))
        }
        return try await SQLiteLedger.open(SQLiteLedger.Settings(path: place, waiting: 2 * sealedTogether))
    }

    /// The number of audit records after which the daemon makes an audit checkpoint, which is 1,000.
    private static let sealedTogether = CheckpointSchedule.maximumRecords

    private static func fill(
        _ ledger: any Ledger, with count: Int, at time: Date, sealedBy key: SealingKey? = nil
    ) async throws {
        var random = SystemRandomNumberGenerator()
        var left = count
        while left > 0 {
            let together = min(left, sealedTogether)
            let records = (0..<together).map { _ in release(at: time, using: &random) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for record in records { group.addTask { _ = try await ledger.append(record) } }
                try await group.waitForAll()
            }
            if let key { try await seal(try await ledger.head(), in: ledger, at: time, by: key) }
            left -= together
        }
    }

    private static func seal(
        _ head: ChainHead, in ledger: any Ledger, at time: Date, by key: SealingKey
    ) async throws {
        guard let checkpoint = head.checkpoint(at: AuditTime(time), keyId: key.checkpointKey.keyId) else {
            throw FillerFailure("the ledger has no record to be sealed")
        }
        try await ledger.insert(checkpoint.signed(by: key.sign))
    }

    /// Makes the audit checkpoints of audit records that `old` wrote.
    private static func seal(
        _ ledger: any Ledger, through last: Int, at time: Date, by key: SealingKey
    ) async throws {
        let node = try await ledger.head().node
        for sequence in stride(from: min(sealedTogether, last), through: last, by: sealedTogether) {
            let records = try await ledger.records(AuditFilter(), order: .oldestFirst, after: sequence - 1, limit: 1)
            guard let record = records.records.first, record.sequence == sequence,
                let head = ChainHead(node: node, sequence: sequence, hash: record.hash)
            else { throw FillerFailure("the ledger has no record \(sequence)") }
            try await seal(head, in: ledger, at: time, by: key)
        }
    }

    /// Returns the audit record of a release, which has the usual length.
    private static func release(at time: Date, using random: inout SystemRandomNumberGenerator) -> AuditRecord {
        AuditRecord(
            time: AuditTime(time), event: .decrypt(reference: digest(&random)),
            caller: AuditCaller(name: AuditText("checkout"), uid: 1001, gid: 1001, pid: 4242, comm: AuditText("node")),
            merchant: AuditText("merchant.com.example.shop"), publicKeyHash: merchantKey,
            transactionId: digest(&random), protection: .c, hsmToken: AuditText("primary"))
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

/// The error that the program could not fill the ledger.
struct FillerFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// The daemon's audit key. It signs in the HSM token, as it does for the worker.
final class SealingKey: Sendable {
    let checkpointKey: CheckpointKey
    private let key: ObjectHandle
    private let session: Mutex<Session>

    init(module path: String, label: String, pin: borrowing SecretBytes) throws {
        let slots = try Module(path: path).slots()
        guard let slot = try slots.first(where: { try $0.tokenInfo().label == label }) else {
            throw FillerFailure("there is no token labelled \(label)")
        }
        var session = try slot.openSession(readWrite: true)
        try session.logIn(.user, pin: pin)
        key = try Self.find(.privateKey, in: &session)
        let publicKey = try Self.find(.publicKey, in: &session)
        let value = try session.attributes([.ecPoint], of: publicKey).bytes(.ecPoint)
        guard let point = value.flatMap(EllipticCurve.p256Point(inAttributeValue:)),
            let checkpointKey = CheckpointKey(point: point)
        else { throw FillerFailure("the audit key is not on P-256") }
        self.checkpointKey = checkpointKey
        self.session = Mutex(session)
    }

    private static func find(_ objectClass: ObjectClass, in session: inout Session) throws -> ObjectHandle {
        let found = try session.findObjects(matching: [.objectClass(objectClass), .label("paytokend audit")])
        guard found.count == 1 else {
            throw FillerFailure("the token has \(found.count) audit keys; let the daemon make one")
        }
        return found[0]
    }

    @Sendable func sign(_ message: [UInt8]) async throws -> CheckpointSignature {
        let signature = try session.withLock {
            try $0.sign(Array(SHA256.hash(data: message)), .ecdsa, key: key)
        }
        guard let signature = CheckpointSignature(rawRepresentation: signature) else {
            throw FillerFailure("the token's signature has not 64 bytes")
        }
        return signature
    }
}
