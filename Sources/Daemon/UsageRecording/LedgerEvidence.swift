package import AuditChain
package import Ledger
import Refusals
import WorkerSupervision

/// The state of the ledger and of the HSM token, read for one comparison.
struct LedgerEvidence: Sendable {
    let head: ChainHead
    /// The audit keys in the ledger, oldest first.
    let storedKeys: [StoredAuditKey]
    /// The audit keys in the HSM token that may be this node's. If only one node uses the ledger, these are all audit
    /// keys in the HSM token.
    let hsmTokenKeys: [AuditSigningKey]
    /// The newest audit checkpoint of this node's chain that the HSM token remembers. It is signed by an audit key of the
    /// HSM token or of the ledger. Nil if there is none.
    let remembered: SignedCheckpoint?
    /// The newest remembered audit checkpoint of this node's chain that an audit key in the HSM token has signed. If
    /// there is none and only one node uses the ledger, this is the newest such audit checkpoint of any node's chain.
    let rememberedByHSMToken: SignedCheckpoint?
    /// True if the HSM token remembers an audit checkpoint of this node. If only one node uses the ledger, any data object
    /// of paytokend counts, even an unreadable one.
    let hsmTokenRemembersSomething: Bool

    init(ledger: any Ledger, hsmToken: any AuditHSMToken) async throws(Refusal) {
        head = try await refusing(ledger: await ledger.head())
        storedKeys = try await refusing(ledger: await ledger.auditKeys())
        let shown = try await refusing(record: await hsmToken.auditKeys()).compactMap(AuditSigningKey.init)
        let lines = try await refusing(record: await hsmToken.rememberedHeads())
        let heads = RememberedHeads(lines)
        let node = head.node
        let own: [AuditSigningKey]
        if ledger.isShared {
            // The same HSM token may also have keys and heads of other nodes, of this ledger or another.
            let others = Set(
                try await refusing(ledger: await ledger.auditKeysOfOtherNodes()).map(\.key.identifier))
            own = shown.filter { key in
                !others.contains(key.identifier) && !heads.showAnotherNode(than: node, for: key.checkpointKey)
                    && AuditKeyIdentifier.mayBelong(key.identifier, of: node.name)
            }
            hsmTokenRemembersSomething = heads.includes(node)
        } else {
            own = shown
            hsmTokenRemembersSomething = !lines.isEmpty
        }
        hsmTokenKeys = own
        let inHSMToken = own.map(\.checkpointKey)
        let inLedger = storedKeys.compactMap { $0.publicKey.flatMap(CheckpointKey.init(stored:)) }
        remembered = heads.newest(of: head.node, signedBy: CheckpointKeys(inHSMToken + inLedger))
        let hsmKeys = CheckpointKeys(inHSMToken)
        rememberedByHSMToken =
            heads.newest(of: head.node, signedBy: hsmKeys) ?? (ledger.isShared ? nil : heads.newest(signedBy: hsmKeys))
    }

    /// The newest audit key that has been in service, according to the ledger; nil if there is none.
    private var stored: StoredAuditKey? { storedKeys.last { $0.publicKey != nil } }

    /// The newest audit key that has been in service, according to the ledger; nil if the HSM token does not have it.
    var signingKey: AuditSigningKey? {
        guard let stored else { return nil }
        return hsmTokenKeys.first { $0.identifier == stored.identifier && $0.publicKey == stored.publicKey }
    }

    /// The configured name of the HSM token with the newest audit key in service, as the ledger stores it; nil if the
    /// ledger has no name.
    var sealingHSMToken: String? { stored?.hsmToken }

    /// The keyId of the newest audit key that has been in service, according to the ledger; nil if there is none.
    var storedKeyId: AuditDigest? { stored?.publicKey.flatMap(CheckpointKey.init(stored:))?.keyId }

    /// The audit key of a ledger that was lost: the key that signed the remembered audit checkpoint. If no audit
    /// checkpoint is remembered, this is the only audit key in the HSM token, or nil if the number of audit keys is not
    /// one.
    var keyOfLostLedger: AuditSigningKey? {
        if let remembered = rememberedByHSMToken {
            return hsmTokenKeys.first { $0.checkpointKey.keyId == remembered.checkpoint.keyId }
        }
        return hsmTokenKeys.count == 1 ? hsmTokenKeys[0] : nil
    }
}

/// A contradiction between the ledger and its HSM token.
package enum LedgerDisagreement: Sendable, Equatable {
    /// The ledger is new, but the HSM token has an audit key or remembers an audit checkpoint, so there was another ledger.
    /// If the new ledger is accepted, it takes over the audit key with this `keyId`; nil if no single key qualifies.
    case lost(remembered: Checkpoint?, keyId: AuditDigest?)
    /// The ledger ends before the record that the HSM token remembers.
    case rolledBack(ledgerSequence: Int, remembered: Checkpoint)
    /// The ledger has a different record at the sequence that the HSM token remembers, because the ledger continued
    /// from an older copy or was rewritten.
    case forked(remembered: Checkpoint)
    /// The HSM token does not have the key that seals this ledger's record. `sealing` is the name of the HSM token that
    /// has the key, according to the ledger; nil if the ledger has no name, or has the name of the HSM token that was
    /// compared.
    case anotherHSMToken(keyId: AuditDigest?, sealing: String? = nil)
    /// The ledger was replaced by an older one. Either the database became older while this daemon or its predecessor
    /// was writing to it, or the SQLite file is marked as a backup or as restored from a backup.
    case changedUnderneath(LedgerHold.Finding)

    /// The end of the record as it is remembered outside the ledger, usually by the HSM token.
    var remembered: LedgerHold.RememberedEnd? { finding?.remembered }

    var hsmTokenSequence: Int? { remembered?.sequence }

    /// The finding that all nodes of the ledger must learn of; nil for a disagreement that concerns only this node.
    package var finding: LedgerHold.Finding? {
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
        case .changedUnderneath(let finding): finding
        }
    }

    /// The disagreement and its remedy, in sentences for operators. Nothing may compare this text, since its wording
    /// may change. An approval is compared by ``DetectedRestore/parameters`` instead.
    package var description: String {
        switch self {
        case .lost(let remembered, let keyId):
            "The ledger is new, but the HSM token remembers "
                + (remembered.map { "record \($0.sequence) of node \($0.node.name)" } ?? "an audit key")
                + ", so a ledger was lost. " + Self.whatItMeans
                + (keyId.map {
                    " Accepting takes over the HSM token's audit key with the keyId \($0.hex). Compare it with the keyId "
                        + "of an exported audit checkpoint, since anyone with the PIN can make such a key."
                } ?? "")
        case .rolledBack(let last, let remembered):
            "The ledger ends with record \(last), but the HSM token remembers record \(remembered.sequence) of "
                + "\(remembered.time.text), so the ledger is an older copy. " + Self.whatItMeans
        case .forked(let remembered):
            "The ledger's record \(remembered.sequence) is not the one that the HSM token remembers, so the ledger "
                + "continued from an older copy or was changed. " + Self.whatItMeans
        case .anotherHSMToken(let keyId, let sealing):
            "The HSM token does not hold the audit key that sealed this ledger's record"
                + (keyId.map { " (keyId \($0.hex))" } ?? "") + ". Put that HSM token back, or the ledger that belongs "
                + "to this one; until then nothing is released."
                + (sealing.map {
                    " According to the ledger, that HSM token was configured under the name \"\($0)\", which the "
                        + "configuration does not have."
                } ?? "")
        case .changedUnderneath(let finding) where finding.kind == .restored:
            "The ledger is a backup, or was restored from one, and ends with record \(finding.ledgerSequence). It "
                + "has not been accepted. "
                + Self.whatItMeans
        case .changedUnderneath(let finding):
            "The database is older than what this node had written to it: \(finding.sentence) " + Self.whatItMeans
        }
    }

    private static let whatItMeans =
        "It may lack released transactions and suspensions or compromises of keys, so nothing is released. Put the "
        + "right ledger back. To take this one into service knowingly, start paytokend with --await-restore and accept "
        + "it (POST /v1/ledger/accept-restore). Payment tokens that were signed before the acceptance, or within the "
        + "widest signing-time window after it, are then refused."
}

extension LedgerHold.Finding {
    /// Returns true if both findings are of the same kind and concern the same remembered record. The end of the ledger
    /// does not matter, since it changes.
    func isAbout(_ other: LedgerHold.Finding?) -> Bool {
        kind == other?.kind && remembered?.sequence == other?.remembered?.sequence
            && remembered?.hash == other?.remembered?.hash && keyId == other?.keyId
    }
}

/// The audit checkpoints of all nodes that an HSM token remembers, in no particular order. Callers must verify an audit
/// checkpoint's signature before they trust it, since anyone with the PIN can write one.
struct RememberedHeads: Sendable {
    private let heads: [SignedCheckpoint]

    /// - Parameter lines: the lines that the HSM token stores. Those that are not audit checkpoints are ignored.
    init(_ lines: [[UInt8]]) {
        heads = lines.compactMap { SignedCheckpoint(line: $0) }
    }

    func includes(_ node: AuditNode) -> Bool { heads.contains { $0.checkpoint.node == node } }

    /// Returns true if the key signed at least one head, and all heads that it signed are of other nodes.
    func showAnotherNode(than node: AuditNode, for key: CheckpointKey) -> Bool {
        let signed = heads.filter { $0.checkpoint.keyId == key.keyId && key.verifies($0) }
        return !signed.isEmpty && signed.allSatisfy { $0.checkpoint.node != node }
    }

    /// Returns the head with the highest sequence that one of the keys signed for this node; nil if there is none. Two
    /// heads of a node exist if a process ended after it stored the new one and before it removed the old one.
    ///
    /// The time decides only between equal sequences. Otherwise a head that was signed while the clock was ahead would hide
    /// all later ones, and a restored older ledger would not be detected.
    func newest(of node: AuditNode, signedBy keys: CheckpointKeys) -> SignedCheckpoint? {
        newest(signedBy: keys) { $0.node == node }
    }

    /// Returns the head with the highest sequence that one of the keys signed for any node; nil if there is none.
    func newest(signedBy keys: CheckpointKeys) -> SignedCheckpoint? { newest(signedBy: keys) { _ in true } }

    private func newest(signedBy keys: CheckpointKeys, where isMeant: (Checkpoint) -> Bool) -> SignedCheckpoint? {
        heads.filter { isMeant($0.checkpoint) && keys[$0.checkpoint.keyId]?.verifies($0) == true }
            .max { ($0.checkpoint.sequence, $0.checkpoint.time) < ($1.checkpoint.sequence, $1.checkpoint.time) }
    }
}
