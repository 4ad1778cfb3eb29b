import AuditChain
import Ledger
import Refusals
import WorkerSupervision

/// The states of the ledger and the HSM token, read for one comparison.
struct LedgerEvidence: Sendable {
    let head: ChainHead
    /// The audit keys that the ledger knows, oldest first.
    let storedKeys: [StoredAuditKey]
    /// The audit keys in the HSM token that may be this node's; in a ledger of one node, all of them.
    let hsmTokenKeys: [AuditSigningKey]
    /// The newest remembered audit checkpoint of this node's chain, signed by an audit key in the HSM token or one that
    /// the ledger knows.
    let remembered: SignedCheckpoint?
    /// The newest remembered audit checkpoint signed by an audit key in the HSM token: of this node's chain or else, in
    /// a ledger of one node, of any node's.
    let rememberedByHSMToken: SignedCheckpoint?
    /// True if the HSM token has a head of this node; in a ledger of one node, if it has any data object of paytokend,
    /// readable or not.
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

    /// The ledger's audit key, if the HSM token holds it.
    var signingKey: AuditSigningKey? {
        guard let stored else { return nil }
        return hsmTokenKeys.first { $0.identifier == stored.identifier && $0.publicPoint == stored.publicKey }
    }

    /// The keyId of the ledger's audit key.
    var storedKeyId: AuditDigest? { stored?.publicKey.flatMap(CheckpointKey.init(point:))?.keyId }

    /// The audit key of the ledger that was lost: the one that signed what the HSM token remembers, or the only one there.
    var keyOfLostLedger: AuditSigningKey? {
        if let remembered = rememberedByHSMToken {
            return hsmTokenKeys.first { $0.checkpointKey.keyId == remembered.checkpoint.keyId }
        }
        return hsmTokenKeys.count == 1 ? hsmTokenKeys[0] : nil
    }
}

/// A contradiction between a ledger and its HSM token.
enum LedgerDisagreement: Sendable, Equatable {
    /// The ledger is new, and the HSM token has an audit key, so there was another ledger. `keyId` names the key that
    /// accepting the new ledger would take over; nil if this is ambiguous.
    case lost(remembered: Checkpoint?, keyId: AuditDigest?)
    /// The ledger ends before the record that the HSM token remembers.
    case rolledBack(ledgerSequence: Int, remembered: Checkpoint)
    /// The ledger has another record where the HSM token remembers one: it continued from an older copy, or was
    /// rewritten.
    case forked(remembered: Checkpoint)
    /// The key that seals this ledger's record is not in the HSM token.
    case anotherHSMToken(keyId: AuditDigest?)
    /// The database became older while this daemon, or the one before it, was writing to it; or the file is marked as a
    /// backup or as restored from one.
    case changedUnderneath(LedgerHold.Finding)

    /// The end of the record that is remembered outside the ledger, usually by the HSM token.
    var remembered: LedgerHold.RememberedEnd? { finding?.remembered }

    var hsmTokenSequence: Int? { remembered?.sequence }

    /// The finding that all nodes must know; nil for a disagreement that concerns only this node.
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
        case .changedUnderneath(let finding): finding
        }
    }

    /// The disagreement and its remedy. An approval depends on ``DetectedRestore/parameters``, not on these words.
    var description: String {
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
        case .anotherHSMToken(let keyId):
            "The HSM token does not hold the audit key that sealed this ledger's record"
                + (keyId.map { " (keyId \($0.hex))" } ?? "") + ". Put that HSM token back, or the ledger that belongs "
                + "to this one; until then nothing is released."
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
    /// Returns true if both findings concern the same remembered record. The ledger's present end does not matter.
    func isAbout(_ other: LedgerHold.Finding?) -> Bool {
        kind == other?.kind && remembered?.sequence == other?.remembered?.sequence
            && remembered?.hash == other?.remembered?.hash && keyId == other?.keyId
    }
}

/// The readable audit checkpoints that an HSM token remembers, of all nodes, in no order. Anyone with the PIN can write
/// there.
struct RememberedHeads: Sendable {
    private let heads: [SignedCheckpoint]

    /// - Parameter lines: lines that are not audit checkpoints are ignored.
    init(_ lines: [[UInt8]]) {
        heads = lines.compactMap { SignedCheckpoint(line: $0) }
    }

    func includes(_ node: AuditNode) -> Bool { heads.contains { $0.checkpoint.node == node } }

    /// Returns true if the key signed at least one head, and all its heads are another node's.
    func showAnotherNode(than node: AuditNode, for key: CheckpointKey) -> Bool {
        let signed = heads.filter { $0.checkpoint.keyId == key.keyId && key.verifies($0) }
        return !signed.isEmpty && signed.allSatisfy { $0.checkpoint.node != node }
    }

    /// Returns the head with the highest sequence among those of a node that one of the keys signed. There are two when
    /// a process ended between storing the new and removing the old one.
    ///
    /// The time decides between equal sequences only. Otherwise a head that was signed while the clock was ahead would
    /// hide all later ones, and a restored older ledger would not be detected.
    func newest(of node: AuditNode, signedBy keys: CheckpointKeys) -> SignedCheckpoint? {
        newest(signedBy: keys) { $0.node == node }
    }

    /// Returns the head with the highest sequence among those of all nodes that one of the keys signed.
    func newest(signedBy keys: CheckpointKeys) -> SignedCheckpoint? { newest(signedBy: keys) { _ in true } }

    private func newest(signedBy keys: CheckpointKeys, where isMeant: (Checkpoint) -> Bool) -> SignedCheckpoint? {
        heads.filter { isMeant($0.checkpoint) && keys[$0.checkpoint.keyId]?.verifies($0) == true }
            .max { ($0.checkpoint.sequence, $0.checkpoint.time) < ($1.checkpoint.sequence, $1.checkpoint.time) }
    }
}
