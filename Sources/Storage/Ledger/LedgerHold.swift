public import AuditChain
import DatabaseKit
public import Foundation

/// A node has found the ledger behind what its HSM token or its own process remembers of it: it was restored from an older copy,
/// or a server took over that had not got everything. Nothing is released on any node until somebody accepts it.
public struct LedgerHold: Sendable, Equatable {
    public enum Kind: String, Sendable, CaseIterable {
        /// The node's chain is gone, and its HSM token has an audit key or a head of it.
        case lost
        /// The chain ends before what is remembered.
        case rolledBack = "rolled_back"
        /// The chain has another record in the place of the one that is remembered.
        case forked
        /// The ledger's file is a backup, or was restored from one, whatever the HSM token remembers.
        case restored
    }

    /// What a node has found.
    public struct Finding: Sendable, Equatable {
        public let kind: Kind
        /// Where the node's chain ends in the ledger; 0 for none.
        public let ledgerSequence: Int
        /// What is remembered; nil where there is only an audit key.
        public let remembered: RememberedEnd?
        /// The audit key that would be taken over from a lost ledger.
        public let keyId: AuditDigest?

        public init(kind: Kind, ledgerSequence: Int, remembered: RememberedEnd?, keyId: AuditDigest? = nil) {
            self.kind = kind
            self.ledgerSequence = ledgerSequence
            self.remembered = remembered
            self.keyId = keyId
        }
    }

    /// A record of the chain that is known outside the ledger.
    public struct RememberedEnd: Sendable, Equatable {
        public let sequence: Int
        public let hash: AuditDigest
        /// When it was sealed; nil for what only a process remembers.
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
    /// By the ledger's clock, in whole milliseconds: with the node it names this hold.
    public let foundAt: Date
    /// On which node it was accepted; nil: nothing is released.
    public let acceptedOn: String?

    public init(node: String, finding: Finding, foundAt: Date, acceptedOn: String? = nil) {
        self.node = node
        self.finding = finding
        self.foundAt = foundAt
        self.acceptedOn = acceptedOn
    }
}

/// Whether the ledger may release, as all nodes see it.
public struct LedgerReleaseStatus: Sendable, Equatable {
    /// Those that nobody has accepted, by their nodes' names: while there is one, nothing is released on any node.
    public var holds: [LedgerHold] = []
    /// This node's own hold, once it was accepted on another node, until this one has taken it up.
    public var accepted: LedgerHold?
    /// Whether this node has compared on the present server.
    public var hasCompared = true
    /// Live nodes that have not compared on the present server yet: nothing is released before. This one may be among them.
    public var comparing: [String] = []
    /// Whether the present server is another than the one on which all have compared.
    public var isServerChanged = false
    /// Nodes with a signing-time window that is off, or that have not told theirs: no restored ledger is accepted meanwhile.
    public var unboundedNodes: [String] = []

    public init() {}

    /// Why nothing is released; nil when that is not so.
    public var obstacle: String? {
        if !holds.isEmpty {
            let found = holds.map { hold in "on \(hold.node): \(hold.finding.sentence)" }.joined(separator: " ")
            return "A node has found the ledger behind what it remembers, so nothing is released on any node. Found "
                + "\(found) It may have forgotten released transactions and suspended or compromised keys. Put the right "
                + "ledger back, or take this one into service knowingly (accept-restore)."
        }
        guard isServerChanged else { return nil }
        return "The ledger is on another server than before, or on one that was promoted or restored, so nothing is "
            + "released until every live node has compared it with what its HSM token remembers"
            + (comparing.isEmpty ? "." : "; not yet: \(comparing.joined(separator: ", ")).")
    }
}

extension LedgerHold.Finding {
    /// Ends with a full stop.
    public var sentence: String {
        let known = remembered.map { end in
            "record \(end.sequence)" + (end.time.map { " of \($0.text)" } ?? "")
        }
        return switch kind {
        case .lost: "no record of its own, and its HSM token remembers \(known ?? "an audit key")."
        case .rolledBack: "its record ends with \(ledgerSequence), and \(known ?? "a later one") is remembered."
        case .restored: "a backup in the ledger's place, which ends with record \(ledgerSequence)."
        case .forked: "another record in the place of \(known ?? "the one that is remembered")."
        }
    }
}

extension AdministrativeChange {
    /// A ledger that is older than what is remembered goes on in service.
    ///
    /// The change's record of ``AuditChain/AuditEvent/ledgerAcceptRestore(_:)`` gets the fence: payment tokens that were signed
    /// before it are refused from then on where no claim is found, on every node. It stands the widest signing-time window of
    /// any node behind the acceptance, by the ledger's clock: what was released and forgotten was claimed before, and signed no
    /// later than a window after its claim.
    public enum Restore: Sendable, Equatable {
        /// All holds end, which must be just these.
        ///
        /// - Parameters:
        ///   - newestRelease: that is known of, by the ledger or by what is remembered outside it: where the clock is behind it,
        ///     the fence stands a window behind this.
        ///   - approval: that permits it; nil where one person may.
        case accept([LedgerHold], newestRelease: Date?, approval: ApprovalIdentifier?)
        /// This node takes up what was accepted on another one. The fence stands already.
        case takeUp
    }
}

/// Payment tokens that were signed too early to be claimed anew. Times are in milliseconds, ``StoredTime``.
struct ReleaseLimits: Sendable, Equatable {
    /// Claims of payment tokens that were signed before this may be pruned.
    var forgottenBefore: Int64?
    /// Claims of payment tokens that were signed before this may be lost with what a restore forgot.
    var restoreFence: Int64?

    /// Behind the widest window after the acceptance, in whole seconds, as answers and records have it.
    static func fence(acceptedAt now: Date, newestRelease: Date?, widestWindow: Duration) -> Int64 {
        let from = min(max(now, newestRelease ?? now), AuditTime.latest.date)
        return Int64((from.timeIntervalSince1970 + widestWindow / .seconds(1)).rounded(.up)) * 1000
    }
}
