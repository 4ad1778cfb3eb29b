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

    func sign(_ message: [UInt8], in token: any AuditToken) async throws(Refusal) -> CheckpointSignature {
        let der: [UInt8]
        do {
            der = try await token.signCheckpoint(message, identifier: identifier)
        } catch {
            throw error.refusal
        }
        guard let signature = CheckpointSignature(der: der) else { throw .defect }
        return signature
    }
}

extension AuditToken {
    /// Has the token make an audit key that the ledger has planned: one that was made just before the process ended is
    /// then known for this ledger's own, and is answered as it is.
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
        return key
    }

    /// Of the heads that the token remembers of a node's chain, the one signed last. Two are there when a process ended
    /// between storing the new and removing the old one. What none of the keys signed counts for nothing.
    func newestHead(of node: String, signedBy keys: CheckpointKeys) async throws(WorkerFailure) -> SignedCheckpoint? {
        try await rememberedHeads()
            .compactMap { SignedCheckpoint(line: $0) }
            .filter { $0.checkpoint.node.name == node && keys[$0.checkpoint.keyId]?.verifies($0) == true }
            .max { $0.checkpoint.time < $1.checkpoint.time }
    }
}
