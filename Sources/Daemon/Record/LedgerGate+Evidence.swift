import AuditChain
import Ledger
import Refusals
import WorkerProtocol

extension LedgerGate {
    /// What ledger and token show, read for one comparison.
    struct Evidence: Sendable {
        let head: ChainHead
        /// The audit keys that the ledger knows, the oldest first.
        let storedKeys: [StoredAuditKey]
        let tokenKeys: [AuditSigningKey]
        /// Signed by the ledger's own key, of this node's chain.
        let remembered: SignedCheckpoint?
        /// Signed by any audit key in the token, of whichever chain.
        let rememberedByToken: SignedCheckpoint?
        /// Whether there is any data object of ours, readable or not.
        let tokenRemembersSomething: Bool

        init(ledger: any Ledger, token: any AuditToken) async throws(Refusal) {
            do throws(LedgerFailure) {
                head = try await ledger.head()
                storedKeys = try await ledger.auditKeys()
            } catch {
                throw error.refusal
            }
            let heads: [SignedCheckpoint]
            let node = head.node
            do throws(WorkerFailure) {
                tokenKeys = try await token.auditKeys().compactMap(AuditSigningKey.init)
                let lines = try await token.rememberedHeads()
                tokenRemembersSomething = !lines.isEmpty
                heads = lines.compactMap { SignedCheckpoint(line: $0) }
            } catch {
                throw error.refusal
            }
            let keys = CheckpointKeys(tokenKeys.map(\.checkpointKey))
            let genuine = heads.filter { keys[$0.checkpoint.keyId]?.verifies($0) == true }
            rememberedByToken = genuine.max { $0.checkpoint.time < $1.checkpoint.time }
            remembered = genuine.filter { $0.checkpoint.node == node }.max { $0.checkpoint.time < $1.checkpoint.time }
        }

        /// The ledger's audit key, where the token holds it.
        var signingKey: AuditSigningKey? {
            guard let stored = storedKeys.last(where: { $0.publicKey != nil }) else { return nil }
            return tokenKeys.first { $0.publicPoint == stored.publicKey }
        }

        /// By which name the ledger knows its audit key.
        var storedKeyId: AuditDigest? {
            storedKeys.last { $0.publicKey != nil }?.publicKey.flatMap(CheckpointKey.init(point:))?.keyId
        }

        /// Whose ledger was lost: the key that signed what the token remembers, or the only one there is.
        var keyOfLostLedger: AuditSigningKey? {
            if let remembered = rememberedByToken {
                return tokenKeys.first { $0.checkpointKey.keyId == remembered.checkpoint.keyId }
            }
            return tokenKeys.count == 1 ? tokenKeys[0] : nil
        }
    }
}
