import AuditChain
import Ledger
import Refusals
import WorkerSupervision

/// What the ledger and the HSM token show of each other, read for one comparison.
struct LedgerEvidence: Sendable {
    let head: ChainHead
    /// The audit keys that the ledger knows, the oldest first.
    let storedKeys: [StoredAuditKey]
    /// Those that may be this node's: in a ledger of one node all that the HSM token shows.
    let hsmTokenKeys: [AuditSigningKey]
    /// The newest of this node's chain that an audit key in the HSM token, or one that the ledger knows, has signed.
    let remembered: SignedCheckpoint?
    /// The newest that such a key has signed: of this node's chain, else, in a ledger of one node, of any node's.
    let rememberedByHSMToken: SignedCheckpoint?
    /// Whether the HSM token has a head of this node; in a ledger of one node any data object of ours, readable or not.
    let hsmTokenRemembersSomething: Bool

    init(ledger: any Ledger, hsmToken: any AuditHSMToken) async throws(Refusal) {
        head = try await refusing(ledger: await ledger.head())
        storedKeys = try await refusing(ledger: await ledger.auditKeys())
        let shown = try await refusing(hsm: await hsmToken.auditKeys()).compactMap(AuditSigningKey.init)
        let lines = try await refusing(hsm: await hsmToken.rememberedHeads())
        let heads = RememberedHeads(lines)
        let node = head.node
        let own: [AuditSigningKey]
        if ledger.isShared {
            // Other nodes, of this ledger or another one, may have their keys and heads in the same HSM token.
            let others = Set(
                try await refusing(ledger: await ledger.auditKeysOfOtherNodes()).map(\.key.identifier))
            own = shown.filter { key in
                !others.contains(key.identifier) && !heads.showAnotherNode(than: node, for: key.checkpointKey)
                    && AuditKeyIdentifier.mayBe(key.identifier, of: node.name)
            }
            hsmTokenRemembersSomething = heads.includes(node)
        } else {
            own = shown
            hsmTokenRemembersSomething = !lines.isEmpty
        }
        hsmTokenKeys = own
        let inHSMToken = own.map(\.checkpointKey)
        let inLedger = storedKeys.compactMap { $0.publicKey.flatMap(CheckpointKey.init(point:)) }
        remembered = heads.newest(of: head.node, signedBy: CheckpointKeys(inHSMToken + inLedger))
        let hsmKeys = CheckpointKeys(inHSMToken)
        rememberedByHSMToken =
            heads.newest(of: head.node, signedBy: hsmKeys) ?? (ledger.isShared ? nil : heads.newest(signedBy: hsmKeys))
    }

    /// The last audit key that the ledger put into service.
    private var stored: StoredAuditKey? { storedKeys.last { $0.publicKey != nil } }

    /// The ledger's audit key, where the HSM token holds it.
    var signingKey: AuditSigningKey? {
        guard let stored else { return nil }
        return hsmTokenKeys.first { $0.identifier == stored.identifier && $0.publicPoint == stored.publicKey }
    }

    /// By which name the ledger knows its audit key.
    var storedKeyId: AuditDigest? { stored?.publicKey.flatMap(CheckpointKey.init(point:))?.keyId }

    /// The audit key of the ledger that was lost: the one that signed what the HSM token remembers, or the only one there.
    var keyOfLostLedger: AuditSigningKey? {
        if let remembered = rememberedByHSMToken {
            return hsmTokenKeys.first { $0.checkpointKey.keyId == remembered.checkpoint.keyId }
        }
        return hsmTokenKeys.count == 1 ? hsmTokenKeys[0] : nil
    }
}

/// How a ledger and the HSM token beside it contradict each other.
enum LedgerDisagreement: Sendable, Equatable {
    /// The ledger is new, and the HSM token has an audit key: there was another ledger. `keyId` names the key that accepting
    /// the new ledger would take over; nil when it is not clear which.
    case lost(remembered: Checkpoint?, keyId: AuditDigest?)
    /// The ledger ends before the record that the HSM token remembers.
    case rolledBack(ledgerSequence: Int, remembered: Checkpoint)
    /// The ledger has another record where the HSM token remembers one: it went on from an older copy, or was rewritten.
    case forked(remembered: Checkpoint)
    /// The key that seals this ledger's record is not in the HSM token.
    case anotherHSMToken(keyId: AuditDigest?)
    /// The database became older while this daemon, or the one before it, was writing to it; or the file is a backup, or
    /// was restored from one, and says so.
    case foundBeneath(LedgerHold.Finding)

    /// What is remembered outside the ledger, as a rule by the HSM token.
    var remembered: LedgerHold.RememberedEnd? { finding?.remembered }

    var hsmTokenSequence: Int? { remembered?.sequence }

    /// What all nodes have to know of it; nil for what is this node's own affair.
    var finding: LedgerHold.Finding? {
        switch self {
        case .lost(let remembered, let keyId):
            LedgerHold.Finding(
                kind: .lost, ledgerSequence: 0, remembered: remembered.map(LedgerHold.RememberedEnd.init),
                keyId: keyId)
        case .rolledBack(let last, let remembered):
            LedgerHold.Finding(kind: .rolledBack, ledgerSequence: last, remembered: .init(remembered))
        case .forked(let remembered):
            LedgerHold.Finding(
                kind: .forked, ledgerSequence: remembered.sequence, remembered: .init(remembered))
        case .anotherHSMToken: nil
        case .foundBeneath(let finding): finding
        }
    }

    /// What is wrong, and what can be done. An approval depends on ``DetectedRestore/parameters``, not on these words.
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
        case .anotherHSMToken(let keyId):
            "The token does not hold the audit key that sealed this ledger's record"
                + (keyId.map { " (keyId \($0.hex))" } ?? "") + ". Put that token back, or the ledger that belongs to "
                + "this one; nothing is released before."
        case .foundBeneath(let finding) where finding.kind == .restored:
            "The ledger is a backup, or was restored from one, that ends with record \(finding.ledgerSequence), and nobody has "
                + "accepted that. "
                + Self.whatItMeans
        case .foundBeneath(let finding):
            "The database is older than what this node had written to it: \(finding.sentence) " + Self.whatItMeans
        }
    }

    private static let whatItMeans =
        "It may have forgotten released transactions and suspended or compromised keys; nothing is released. Put the "
        + "right ledger back. To take this one into service knowingly, start paytokend with --await-restore and accept "
        + "it (POST /v1/ledger/accept-restore): payment tokens that were signed before the acceptance, or within the "
        + "widest signing-time window after it, are refused from then on."
}

extension LedgerHold.Finding {
    /// Whether it is about the same record that is remembered: where the ledger ends meanwhile does not matter.
    func isAbout(_ other: LedgerHold.Finding?) -> Bool {
        kind == other?.kind && remembered?.sequence == other?.remembered?.sequence
            && remembered?.hash == other?.remembered?.hash && keyId == other?.keyId
    }
}

/// The checkpoints that an HSM token remembers, as far as they can be read: of all nodes, in no order. Anyone with the PIN
/// can write there.
struct RememberedHeads: Sendable {
    private let heads: [SignedCheckpoint]

    /// - Parameter lines: what is no checkpoint's line is left out.
    init(_ lines: [[UInt8]]) {
        heads = lines.compactMap { SignedCheckpoint(line: $0) }
    }

    func includes(_ node: AuditNode) -> Bool { heads.contains { $0.checkpoint.node == node } }

    /// Whether a key has signed heads, and all of them are another node's.
    func showAnotherNode(than node: AuditNode, for key: CheckpointKey) -> Bool {
        let signed = heads.filter { $0.checkpoint.keyId == key.keyId && key.verifies($0) }
        return !signed.isEmpty && signed.allSatisfy { $0.checkpoint.node != node }
    }

    /// The head with the highest sequence among those of a node that one of the keys signed. There are two when a process
    /// ended between storing the new and removing the old one.
    ///
    /// The time decides between equal sequences only: otherwise a head that was signed while the clock was ahead would
    /// hide all later ones, and an older ledger that was put back would not be noticed.
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
