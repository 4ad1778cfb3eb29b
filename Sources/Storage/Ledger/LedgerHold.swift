public import AuditChain
public import Foundation

/// A node's finding that the ledger is older than the state that its HSM token or its process remembers. The ledger was
/// restored from an older copy, or a standby that lacked data took over. No node releases anything until an
/// administrator accepts the ledger as it is.
public struct LedgerHold: Sendable, Equatable {
    public enum Kind: String, Sendable, CaseIterable {
        /// The node's chain is gone, but its HSM token has the chain's audit key or head.
        case lost
        /// The chain ends before the remembered record.
        case rolledBack = "rolled_back"
        /// The chain has another record with the remembered record's sequence.
        case forked
        /// The ledger's file is a backup or was restored from one, whatever the HSM token remembers.
        case restored
    }

    /// The details of a node's finding.
    public struct Finding: Sendable, Equatable {
        public let kind: Kind
        /// The last sequence of the node's chain in the ledger; 0 if the ledger has no record of the node.
        public let ledgerSequence: Int
        /// The record that the HSM token or the process remembers; nil if the HSM token has only an audit key.
        public let remembered: RememberedEnd?
        /// The keyId of the HSM token's audit key, if the ledger was lost; otherwise nil. An acceptance enters this key
        /// in the new ledger.
        public let keyId: AuditDigest?

        public init(kind: Kind, ledgerSequence: Int, remembered: RememberedEnd?, keyId: AuditDigest? = nil) {
            self.kind = kind
            self.ledgerSequence = ledgerSequence
            self.remembered = remembered
            self.keyId = keyId
        }
    }

    /// A record of the chain that is remembered outside the ledger.
    public struct RememberedEnd: Sendable, Equatable {
        public let sequence: Int
        public let hash: AuditDigest
        /// The time when the record was sealed; nil if only a process remembers the record.
        public let time: AuditTime?

        public init(sequence: Int, hash: AuditDigest, time: AuditTime?) {
            self.sequence = sequence
            self.hash = hash
            self.time = time
        }

        public init(_ checkpoint: Checkpoint) {
            self.init(sequence: checkpoint.sequence, hash: checkpoint.hash, time: checkpoint.time)
        }
    }

    public let node: String
    public let finding: Finding
    /// The time of the finding according to the ledger's clock, in whole milliseconds. The node and this time identify
    /// the hold.
    public let foundAt: Date
    /// The node on which the hold was accepted; nil while it is not accepted. No node releases anything until then.
    public let acceptedOn: String?

    public init(node: String, finding: Finding, foundAt: Date, acceptedOn: String? = nil) {
        self.node = node
        self.finding = finding
        self.foundAt = foundAt
        self.acceptedOn = acceptedOn
    }
}

/// The state of the ledger that decides whether its nodes may release.
public struct LedgerReleaseStatus: Sendable, Equatable {
    /// Holds that are not accepted, ordered by node. While there is one, no node releases anything.
    public var holds: [LedgerHold] = []
    /// This node's own hold, if another node has accepted it and this node has not processed the acceptance yet.
    public var accepted: LedgerHold?
    /// True if this node has compared its chain, on the current server, with the head that it remembers.
    public var hasCompared = true
    /// The live nodes, possibly including this one, that have not yet compared their chains, on the current server,
    /// with the heads that they remember. Nothing is released until they have done so.
    public var comparing: [String] = []
    /// True after the ledger's server was replaced, promoted or restored, until all live nodes have compared their
    /// chains with the heads that they remember.
    public var isServerChanged = false
    /// The nodes with a signing-time window that is off or not reported yet. While this is not empty, no restored
    /// ledger can be accepted.
    public var unboundedNodes: [String] = []

    public init() {}

    /// The reason why nothing is released; nil if releases are permitted.
    public var obstacle: String? {
        if !holds.isEmpty {
            let found = holds.map { hold in "on \(hold.node): \(hold.finding.sentence)" }.joined(separator: " ")
            return "The ledger does not match what a node remembers of it, so nothing is released on any node. Found "
                + "\(found) The ledger may lack released transactions and suspended or compromised keys. Restore the right "
                + "ledger, or take this one into service knowingly (accept-restore)."
        }
        guard isServerChanged else { return nil }
        return "The ledger is on another server than before, or on one that was promoted or restored, so nothing is "
            + "released until every live node has compared it with what its HSM token remembers"
            + (comparing.isEmpty ? "." : "; not yet: \(comparing.joined(separator: ", ")).")
    }
}

extension LedgerHold.Finding {
    /// A description of the finding, ending with a full stop.
    public var sentence: String {
        let known = remembered.map { end in
            "record \(end.sequence)" + (end.time.map { " of \($0.text)" } ?? "")
        }
        return switch kind {
        case .lost: "no record of its own, although its HSM token remembers \(known ?? "an audit key")."
        case .rolledBack: "its last record is \(ledgerSequence), although \(known ?? "a later one") is remembered."
        case .restored: "a backup in place of the ledger, with \(ledgerSequence) as its last record."
        case .forked: "another record in place of \(known ?? "the remembered one")."
        }
    }
}

extension AdministrativeChange {
    /// Accepts a ledger that is older than the state that a node remembers.
    ///
    /// The change's record of ``AuditChain/AuditEvent/ledgerAcceptRestore(_:)`` contains the fence. From then on, every
    /// node refuses payment tokens that were signed before the fence and have no claim. The fence is the acceptance
    /// time, according to the ledger's clock, plus the widest signing-time window of any node. A release that the
    /// restored ledger lacks was claimed before the acceptance, and its payment token was signed at most one window
    /// after the claim. Such a payment token was therefore signed before the fence.
    public enum Restore: Sendable, Equatable {
        /// Ends all holds. The ledger's holds must be exactly those in the first value; otherwise the change throws
        /// `holdsConflict`.
        ///
        /// - Parameters:
        ///   - newestRelease: the time of the latest release that is known to the ledger or remembered outside it. If
        ///     this time is later than the acceptance, the fence is computed from it instead of from the acceptance.
        ///   - approval: the approval that permits the acceptance; nil if one person alone may accept.
        case accept([LedgerHold], newestRelease: Date?, approval: ApprovalIdentifier?)
        /// Ends this node's hold after an acceptance on another node. That acceptance has already set the fence.
        case endOwnHold
    }
}
