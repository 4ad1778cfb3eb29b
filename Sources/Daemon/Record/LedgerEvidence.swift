import AuditChain
import Ledger
import Refusals
import WorkerProtocol

extension LedgerGate {
    /// What ledger and token show, read for one comparison.
    struct LedgerEvidence: Sendable {
        let head: ChainHead
        /// The audit keys that the ledger knows, the oldest first.
        let storedKeys: [StoredAuditKey]
        let hsmTokenKeys: [AuditSigningKey]
        /// The newest of this node's chain that an audit key in the token, or one that the ledger knows, has signed.
        let remembered: SignedCheckpoint?
        /// The newest of this node's chain, else of whichever, that an audit key in the token has signed.
        let rememberedByHSMToken: SignedCheckpoint?
        /// Whether there is any data object of ours, readable or not.
        let hsmTokenRemembersSomething: Bool

        init(ledger: any Ledger, hsmToken: any AuditToken) async throws(Refusal) {
            do throws(LedgerFailure) {
                head = try await ledger.head()
                storedKeys = try await ledger.auditKeys()
            } catch {
                throw error.refusal
            }
            let heads: RememberedHeads
            do throws(WorkerFailure) {
                hsmTokenKeys = try await hsmToken.auditKeys().compactMap(AuditSigningKey.init)
                let lines = try await hsmToken.rememberedHeads()
                hsmTokenRemembersSomething = !lines.isEmpty
                heads = RememberedHeads(lines)
            } catch {
                throw error.refusal
            }
            let inToken = hsmTokenKeys.map(\.checkpointKey)
            let inLedger = storedKeys.compactMap { $0.publicKey.flatMap(CheckpointKey.init(point:)) }
            remembered = heads.newest(of: head.node, signedBy: CheckpointKeys(inToken + inLedger))
            let ofToken = CheckpointKeys(inToken)
            rememberedByHSMToken = heads.newest(of: head.node, signedBy: ofToken) ?? heads.newest(signedBy: ofToken)
        }

        /// The ledger's audit key, where the token holds it.
        var signingKey: AuditSigningKey? {
            guard let stored = storedKeys.last(where: { $0.publicKey != nil }) else { return nil }
            return hsmTokenKeys.first { $0.identifier == stored.identifier && $0.publicPoint == stored.publicKey }
        }

        /// By which name the ledger knows its audit key.
        var storedKeyId: AuditDigest? {
            storedKeys.last { $0.publicKey != nil }?.publicKey.flatMap(CheckpointKey.init(point:))?.keyId
        }

        /// Whose ledger was lost: the key that signed what the token remembers, or the only one there is.
        var keyOfLostLedger: AuditSigningKey? {
            if let remembered = rememberedByHSMToken {
                return hsmTokenKeys.first { $0.checkpointKey.keyId == remembered.checkpoint.keyId }
            }
            return hsmTokenKeys.count == 1 ? hsmTokenKeys[0] : nil
        }
    }
}
