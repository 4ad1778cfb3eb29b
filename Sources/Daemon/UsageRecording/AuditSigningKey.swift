package import AuditChain
import Encodings
import KeyTypes
package import Ledger
package import Refusals
import WorkerProtocol
import WorkerSupervision

/// The key in the HSM token that signs the audit checkpoints.
package struct AuditSigningKey: Sendable {
    /// The key's CKA_ID, 16 bytes.
    package let identifier: [UInt8]
    /// The public half as the ledger stores it (`CheckpointKey.init(stored:)`).
    package let publicKey: [UInt8]
    package let checkpointKey: CheckpointKey
    /// The algorithm with which the HSM token signs with this key.
    let algorithm: AuditSignatureAlgorithm

    /// Creates the key from the HSM token's description of the key. Returns nil if the public key is not that of an
    /// audit key, or if the algorithm does not match the type of the key.
    init?(_ description: AuditKeyDescription) {
        guard let key = CheckpointKey(stored: description.publicKey),
            key.keyAlgorithm == description.algorithm.keyAlgorithm
        else { return nil }
        identifier = description.identifier
        publicKey = description.publicKey
        checkpointKey = key
        algorithm = description.algorithm
    }

    func sign(_ message: [UInt8], in hsmToken: any AuditHSMToken) async throws(Refusal) -> CheckpointSignature {
        let bytes = try await refusing(
            record: await hsmToken.signCheckpoint(message, identifier: identifier, algorithm: algorithm))
        guard let signature = CheckpointSignature(bytes, by: algorithm) else { throw .defect }
        return signature
    }

    /// Has the HSM token sign a random challenge, and returns true if the signature is valid. Only such a signature
    /// proves that the HSM token has the private half. Anyone with the PIN can write a public key with the same
    /// identifier and label.
    ///
    /// - Throws: hsm_unavailable if the HSM token does not sign.
    func isProven(by hsmToken: any AuditHSMToken) async throws(Refusal) -> Bool {
        let challenge = Hexadecimal.encode(Release.randomIdentifier())
        // This message has no sequence and an empty node name, so it cannot be mistaken for an audit checkpoint.
        let message = Array("{\"node\":\"\",\"challenge\":\"\(challenge)\"}".utf8)
        return checkpointKey.verifies(try await sign(message, in: hsmToken), by: algorithm, of: message)
    }
}

/// The identifiers (CKA_ID) of audit keys, 16 bytes: the text `node`, four random bytes, and the first eight bytes of a
/// SHA-256 of the node's name. Each node can thus tell which keys in a shared HSM token may be its own. Keys of earlier
/// versions have 16 random bytes, and may belong to any node.
package enum AuditKeyIdentifier {
    private static let mark = Array("node".utf8)

    package static func newIdentifier(for node: String) -> [UInt8] {
        mark + Release.randomIdentifier().prefix(4) + digest(of: node)
    }

    /// Returns false if the identifier shows that another node made the key. Returns true for an identifier of an
    /// earlier version, which does not depend on the node.
    static func mayBelong(_ identifier: [UInt8], of node: String) -> Bool {
        !identifier.starts(with: mark) || identifier.suffix(8) == digest(of: node)
    }

    private static func digest(of node: String) -> ArraySlice<UInt8> {
        AuditDigest.of(Array("paytokend audit key of \(node)".utf8)).bytes.prefix(8)
    }
}

extension AuditHSMToken {
    /// Generates an audit key. Before that, the ledger stores the identifier, and marks the key as planned. If the
    /// daemon ends right after the generation, its next start recognises the key by that identifier.
    package func makeAuditKey(
        _ identifier: [UInt8], plannedIn ledger: any Ledger
    ) async throws(Refusal) -> AuditSigningKey {
        try await refusing(ledger: await ledger.planAuditKey(identifier: identifier, in: name))
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
