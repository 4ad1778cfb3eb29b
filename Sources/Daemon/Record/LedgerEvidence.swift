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

/// How a ledger and the token beside it contradict each other.
enum LedgerDisagreement: Sendable, Equatable {
    /// The ledger is new, and the token has an audit key: there was another ledger. `keyId` names the key that accepting
    /// the new ledger would take over; nil when it is not clear which.
    case lost(remembered: Checkpoint?, keyId: AuditDigest?)
    /// The ledger ends before the record that the token remembers.
    case rolledBack(ledgerSequence: Int, remembered: Checkpoint)
    /// The ledger has another record where the token remembers one: it went on from an older copy, or was rewritten.
    case forked(remembered: Checkpoint)
    /// The key that seals this ledger's record is not in the token.
    case anotherToken(keyId: AuditDigest?)

    /// The sequence that the token remembers.
    var hsmTokenSequence: Int? {
        switch self {
        case .lost(let remembered, _): remembered?.sequence
        case .rolledBack(_, let remembered), .forked(let remembered): remembered.sequence
        case .anotherToken: nil
        }
    }

    /// What is wrong, and what can be done.
    var description: String {
        switch self {
        case .lost(let remembered, let keyId):
            "The ledger is new, but the token remembers "
                + (remembered.map { "record \($0.sequence) of node \($0.node.name)" } ?? "an audit key")
                + ", so a ledger was lost. " + Self.whatItMeans
                + (keyId.map {
                    " Accepting takes over the token's audit key with the keyId \($0.hex): compare it with the keyId of a "
                        + "checkpoint exported before, since anyone with the PIN can make such a key."
                } ?? "")
        case .rolledBack(let last, let remembered):
            "The ledger ends with record \(last), but the token remembers record \(remembered.sequence) of "
                + "\(remembered.time.text), so the ledger is an older copy. " + Self.whatItMeans
        case .forked(let remembered):
            "The ledger's record \(remembered.sequence) is not the one that the token remembers, so the ledger went on "
                + "from an older copy or was changed. " + Self.whatItMeans
        case .anotherToken(let keyId):
            "The token does not hold the audit key that sealed this ledger's record"
                + (keyId.map { " (keyId \($0.hex))" } ?? "") + ". Put that token back, or the ledger that belongs to "
                + "this one; nothing is released before."
        }
    }

    private static let whatItMeans =
        "It may have forgotten released transactions and suspended or compromised keys; nothing is released. Put the "
        + "right ledger back. To take this one into service knowingly, start paytokend with --await-restore and run "
        + "paytokenctl ledger accept-restore: whatever it forgot can then be released again, and only the signing-time "
        + "window stands against that."
}
