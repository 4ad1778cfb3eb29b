import AuditChain
import Crypto
import Foundation
import Refusals

/// A key that signs checkpoints in software.
struct CheckpointSigner: Sendable {
    let key: P256.Signing.PrivateKey
    let publicKey: CheckpointKey

    init() throws {
        key = P256.Signing.PrivateKey()
        publicKey = try required(CheckpointKey(point: Array(key.publicKey.x963Representation)))
    }

    /// Signs a checkpoint that names the key in `claiming`, by default the signing key.
    func checkpoint(
        _ head: ChainHead, at time: AuditTime? = nil, claiming: CheckpointKey? = nil
    ) async throws -> SignedCheckpoint {
        let time = time ?? SyntheticChain.time(head.sequence)
        let checkpoint = try required(head.checkpoint(at: time, keyId: (claiming ?? publicKey).keyId))
        return try await checkpoint.signed { message in
            let signature = try key.signature(for: Data(message))
            return try required(CheckpointSignature(rawRepresentation: Array(signature.rawRepresentation)))
        }
    }
}

/// One node's lines as in an export, with a checkpoint after every fixed number of records.
struct SyntheticChain: Sendable {
    static let beginning = AuditTime(stored: "2026-01-31T12:00:00.000Z")!

    /// Returns a record's time. Records are one second apart; record 3000 has 12:50:00.
    static func time(_ sequence: Int) -> AuditTime {
        AuditTime(milliseconds: beginning.milliseconds + Int64(sequence) * 1000)
    }

    var lines: [[UInt8]] = []
    var heads: [ChainHead] = []

    init(
        node name: String, records: Int, checkpointEvery interval: Int, signer: CheckpointSigner, salt: String = "",
        saltFrom: Int = 1
    ) async throws {
        var head = ChainHead(node: try required(AuditNode(name)))
        for sequence in 1...records {
            lines.append(head.append(Self.record(sequence, salt: sequence >= saltFrom ? salt : "")).bytes)
            heads.append(head)
            if sequence % interval == 0 { lines.append(try await signer.checkpoint(head).line) }
        }
    }

    /// Returns a record for this sequence number, on which its event and outcome depend.
    static func record(_ sequence: Int, salt: String = "") -> AuditRecord {
        let number = "\(sequence)\(salt)"
        var record = AuditRecord(
            time: time(sequence), event: .decrypt(reference: .of(Array("order-\(number)".utf8))),
            caller: AuditCaller(
                name: AuditText("checkout"), uid: 1001, gid: 1002, pid: Int32(sequence), comm: AuditText("shop")),
            merchant: AuditText("merchant.com.example"), publicKeyHash: .of(Array("key".utf8)),
            transactionId: .of(Array("transaction-\(number)".utf8)), protection: .c, hsmToken: AuditText("primary"))
        switch sequence % 7 {
        case 0:
            record.outcome = .refused(.transactionReplayed)
        case 3:
            record.outcome = .repeated
        case 5:
            record = AuditRecord(time: time(sequence), event: .verify, outcome: .refused(.signatureInvalid))
        default: break
        }
        return record
    }
}

struct Missing: Error {}

/// Returns the value, or throws if it is nil.
func required<Value>(_ value: Value?) throws -> Value {
    guard let value else { throw Missing() }
    return value
}

extension [[UInt8]] {
    /// The lines as the bytes of a file, each with a line feed.
    var export: [UInt8] { flatMap { $0 + [0x0A] } }
}

extension [UInt8] {
    /// Returns the line with the first occurrence of `text` replaced. Fails the test if there is no occurrence.
    func replacing(_ text: String, with other: String) throws -> [UInt8] {
        let string = String(decoding: self, as: UTF8.self)
        guard let range = string.range(of: text) else { throw Missing() }
        return Array(string.replacingCharacters(in: range, with: other).utf8)
    }
}
