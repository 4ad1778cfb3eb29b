import AuditChain
import Ledger
import Refusals
import WorkerProtocol

/// The key in the token that signs checkpoints: its handle there, and its public half.
struct AuditSigningKey: Sendable {
    /// The key's CKA_ID, 16 bytes.
    let identifier: [UInt8]
    /// The public half, X9.63, 65 bytes.
    let publicPoint: [UInt8]
    let checkpointKey: CheckpointKey

    /// Nil when the token shows a point that is not on P-256.
    init?(_ description: AuditKeyDescription) {
        guard let key = CheckpointKey(point: description.publicPoint) else { return nil }
        identifier = description.identifier
        publicPoint = description.publicPoint
        checkpointKey = key
    }

    func sign(_ message: [UInt8], in hsmToken: any AuditToken) async throws(Refusal) -> CheckpointSignature {
        let der: [UInt8]
        do {
            der = try await hsmToken.signCheckpoint(message, identifier: identifier)
        } catch {
            throw error.refusal
        }
        guard let signature = CheckpointSignature(der: der) else { throw .defect }
        return signature
    }

    /// Has the token sign something that nobody has signed before: whether it holds the private half of this public key.
    /// A public key, an identifier and a label prove nothing, since anyone with the PIN can write them.
    ///
    /// - Throws: hsm_unavailable when the token does not sign.
    func isProven(by hsmToken: any AuditToken) async throws(Refusal) -> Bool {
        let challenge = Release.randomAttempt().map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        // No checkpoint: those have a node and a sequence.
        let message = Array("{\"node\":\"\",\"challenge\":\"\(challenge)\"}".utf8)
        return checkpointKey.verifies(try await sign(message, in: hsmToken), of: message)
    }
}

extension AuditToken {
    /// Has the token make an audit key that the ledger has planned: one that was made just before the process ended is
    /// then known for this ledger's own, and is answered when it signs.
    func makeAuditKey(
        _ identifier: [UInt8], plannedIn ledger: any AuditKeyRecords
    ) async throws(Refusal) -> AuditSigningKey {
        do throws(LedgerFailure) {
            try await ledger.planAuditKey(identifier: identifier)
        } catch {
            throw error.refusal
        }
        let made: AuditKeyDescription
        do {
            made = try await createAuditKey(identifier: identifier)
        } catch {
            throw error.refusal
        }
        guard let key = AuditSigningKey(made) else { throw .defect }
        guard try await key.isProven(by: self) else {
            throw Refusal(
                .hsmUnavailable, "The token's new audit key does not sign as its public key says; it is not used.")
        }
        return key
    }
}

/// What a token remembers, as far as it can be read: of all nodes, in no order. Anyone with the PIN can write there.
struct RememberedHeads: Sendable {
    private let heads: [SignedCheckpoint]

    /// - Parameter lines: what is no checkpoint's line is left out.
    init(_ lines: [[UInt8]]) {
        heads = lines.compactMap { SignedCheckpoint(line: $0) }
    }

    /// Of a node's heads that one of the keys signed, the one with the highest sequence. Two are there when a process
    /// ended between storing the new and removing the old one.
    ///
    /// The time does not decide, except between equal sequences: a head that was signed while the clock was ahead would
    /// hide all that were signed after it was put right, and with them a ledger that was put back.
    func newest(of node: AuditNode, signedBy keys: CheckpointKeys) -> SignedCheckpoint? {
        newest(signedBy: keys) { $0.node == node }
    }

    /// The same of whichever node.
    func newest(signedBy keys: CheckpointKeys) -> SignedCheckpoint? { newest(signedBy: keys) { _ in true } }

    private func newest(signedBy keys: CheckpointKeys, where isMeant: (Checkpoint) -> Bool) -> SignedCheckpoint? {
        heads.filter { isMeant($0.checkpoint) && keys[$0.checkpoint.keyId]?.verifies($0) == true }
            .max { ($0.checkpoint.sequence, $0.checkpoint.time) < ($1.checkpoint.sequence, $1.checkpoint.time) }
    }
}
