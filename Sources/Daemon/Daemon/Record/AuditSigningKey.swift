import AuditChain
import Encodings
import Ledger
import Refusals
import WorkerProtocol
import WorkerSupervision

/// The key in the HSM token that signs the audit checkpoints.
struct AuditSigningKey: Sendable {
    /// The key's CKA_ID, 16 bytes.
    let identifier: [UInt8]
    /// The public half of the key as an uncompressed point (ANSI X9.63), 65 bytes.
    let publicPoint: [UInt8]
    let checkpointKey: CheckpointKey

    /// Creates the key from the HSM token's description; nil if the public point is not on P-256.
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

    /// Has the HSM token sign a random challenge, and returns true if the signature is valid. Only this proves that the HSM
    /// token holds the private half. Anyone with the PIN can write a public key, an identifier and a label.
    ///
    /// - Throws: hsm_unavailable if the HSM token does not sign.
    func isProven(by hsmToken: any AuditHSMToken) async throws(Refusal) -> Bool {
        let challenge = Hexadecimal.encode(Release.randomIdentifier())
        // An audit checkpoint has a node name and a sequence, so this message cannot be mistaken for one.
        let message = Array("{\"node\":\"\",\"challenge\":\"\(challenge)\"}".utf8)
        return checkpointKey.verifies(try await sign(message, in: hsmToken), of: message)
    }
}

/// The identifiers (CKA_ID) of audit keys, 16 bytes: the text `node`, four random bytes, and the first eight bytes of a
/// SHA-256 of the node's name. Each node can thus tell which keys in a shared HSM token may be its own. Keys of earlier
/// versions have 16 random bytes, and may belong to any node.
enum AuditKeyIdentifier {
    private static let mark = Array("node".utf8)

    static func random(of node: String) -> [UInt8] {
        mark + Release.randomIdentifier().prefix(4) + digest(of: node)
    }

    /// Returns false if the identifier shows that another node made the key. An identifier of an earlier version does not
    /// show a node.
    static func mayBe(_ identifier: [UInt8], of node: String) -> Bool {
        !identifier.starts(with: mark) || identifier.suffix(8) == digest(of: node)
    }

    private static func digest(of node: String) -> ArraySlice<UInt8> {
        AuditDigest.of(Array("paytokend audit key of \(node)".utf8)).bytes.prefix(8)
    }
}

extension AuditHSMToken {
    /// Generates an audit key, after recording its identifier in the ledger as planned. If the daemon ends right
    /// afterwards, its next start recognises the key by that identifier.
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
