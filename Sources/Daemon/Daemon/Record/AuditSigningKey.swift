import AuditChain
import Encodings
import Ledger
import Refusals
import WorkerProtocol
import WorkerSupervision

/// The key in the HSM token that signs audit checkpoints: its identifier and its public half.
struct AuditSigningKey: Sendable {
    /// The key's CKA_ID, 16 bytes.
    let identifier: [UInt8]
    /// The public half, X9.63, 65 bytes.
    let publicPoint: [UInt8]
    let checkpointKey: CheckpointKey

    /// Returns nil if the HSM token shows a point that is not on P-256.
    init?(_ description: AuditKeyDescription) {
        guard let key = CheckpointKey(point: description.publicPoint) else { return nil }
        identifier = description.identifier
        publicPoint = description.publicPoint
        checkpointKey = key
    }

    func sign(_ message: [UInt8], in hsmToken: any AuditHSMToken) async throws(Refusal) -> CheckpointSignature {
        let der = try await refusing(record: await hsmToken.signCheckpoint(message, identifier: identifier))
        guard let signature = CheckpointSignature(der: der) else { throw .defect }
        return signature
    }

    /// Returns true if the HSM token proves that it holds the private half by signing a fresh challenge. A public key,
    /// an identifier and a label prove nothing, since anyone with the PIN can write them.
    ///
    /// - Throws: hsm_unavailable when the HSM token does not sign.
    func isProven(by hsmToken: any AuditHSMToken) async throws(Refusal) -> Bool {
        let challenge = Hexadecimal.encode(Release.randomIdentifier())
        // The message cannot be taken for an audit checkpoint, which has a node and a sequence.
        let message = Array("{\"node\":\"\",\"challenge\":\"\(challenge)\"}".utf8)
        return checkpointKey.verifies(try await sign(message, in: hsmToken), of: message)
    }
}

/// The identifiers (CKA_ID) of audit keys, 16 bytes: `node`, four random bytes, and the first eight of the SHA-256 of
/// the node's name. With them, each node can tell which keys in a shared HSM token may be its own. Keys of earlier
/// versions have 16 random bytes and may belong to any node.
enum AuditKeyIdentifier {
    private static let mark = Array("node".utf8)

    static func random(of node: String) -> [UInt8] {
        mark + Release.randomIdentifier().prefix(4) + digest(of: node)
    }

    /// Returns false if the identifier shows that another node made the key. An identifier of an earlier version shows
    /// nothing.
    static func mayBe(_ identifier: [UInt8], of node: String) -> Bool {
        !identifier.starts(with: mark) || identifier.suffix(8) == digest(of: node)
    }

    private static func digest(of node: String) -> ArraySlice<UInt8> {
        AuditDigest.of(Array("paytokend audit key of \(node)".utf8)).bytes.prefix(8)
    }
}

extension AuditHSMToken {
    /// Makes an audit key with an identifier that the ledger has planned. If the process ends right afterwards, the
    /// next one recognizes the key as this ledger's by the planned identifier.
    func makeAuditKey(
        _ identifier: [UInt8], plannedIn ledger: any Ledger
    ) async throws(Refusal) -> AuditSigningKey {
        try await refusing(ledger: await ledger.planAuditKey(identifier: identifier))
        let made = try await refusing(record: await createAuditKey(identifier: identifier))
        guard let key = AuditSigningKey(made) else { throw .defect }
        guard try await key.isProven(by: self) else {
            throw Refusal(
                .hsmUnavailable,
                "The HSM's new audit key made a signature that its public key does not verify; the key is not used.")
        }
        return key
    }
}
