/// The source of the keys with which a node's checkpoints are verified.
public enum KeySource: Sendable, Equatable, CustomStringConvertible {
    /// The auditor supplied the keys.
    case given
    /// The record of the node `by` names the keys as trusted, and that record was itself verified.
    case pinned(by: AuditNode)
    /// The queried daemon returned the keys with its own record.
    case own

    public var description: String {
        switch self {
        case .given: "key given"
        case .pinned(let node): "key pinned by node \(node.name)"
        case .own: "own key, as the daemon says"
        }
    }
}

/// The keys that are trusted for each node.
public struct TrustedKeys: Sendable {
    /// The keys that the auditor supplied for all nodes; nil if the auditor supplied none.
    private let given: CheckpointKeys?
    /// The keys that the auditor supplied for one node each. No other key is valid for that node.
    private var givenFor: [AuditNode: CheckpointKeys] = [:]
    private var own: (node: AuditNode, keys: CheckpointKeys)?
    private var pins: (node: AuditNode, KeyPins)?

    /// - Parameter given: the auditor's keys for all nodes.
    public init(given: CheckpointKeys? = nil) {
        self.given = given
    }

    /// Trusts only these keys, which the auditor supplied, for the node.
    public mutating func give(_ keys: CheckpointKeys, for node: AuditNode) {
        givenFor[node] = givenFor[node]?.joined(by: keys) ?? keys
    }

    /// Trusts these keys as the daemon's own.
    public mutating func trust(own keys: CheckpointKeys, of node: AuditNode) { own = (node, keys) }

    /// Trusts the keys that the verified record of `node` names for other nodes.
    public mutating func trust(_ pins: KeyPins, of node: AuditNode) { self.pins = (node, pins) }

    /// The nodes whose keys a verified record names as trusted.
    public var pinnedNodes: Set<AuditNode> { Set(pins?.1.keys.keys ?? [:].keys) }

    /// The nodes for which the auditor supplied separate keys.
    public var boundNodes: Set<AuditNode> { Set(givenFor.keys) }

    /// Returns all keys that may have signed the node's checkpoints; nil if none is known.
    public func keys(of node: AuditNode) -> CheckpointKeys? {
        if let bound = givenFor[node] { return bound }
        let pinned = pins?.1.keys[node].map(CheckpointKeys.init)
        let stated = given ?? (own?.node == node ? own?.keys : nil)
        guard let pinned else { return stated }
        return stated?.joined(by: pinned) ?? pinned
    }

    /// Returns the source of the keys that signed the node's checkpoints; nil if there is no signature, or if no key of
    /// the node is known.
    func source(of signers: Set<AuditDigest>, node: AuditNode) -> KeySource? {
        guard !signers.isEmpty, keys(of: node) != nil else { return nil }
        if let known = givenFor[node] ?? given, signers.allSatisfy({ known[$0] != nil }) { return .given }
        if let own, own.node == node, signers.allSatisfy({ own.keys[$0] != nil }) { return .own }
        return pins.map { .pinned(by: $0.node) }
    }

    /// Returns the fault of a record that names an unendorsed key of this node. Nil if no record does, or if the
    /// auditor supplied keys for the node.
    func pinFault(of node: AuditNode) -> ChainBreak? {
        guard givenFor[node] == nil else { return nil }
        return pins?.1.unendorsed[node]
    }
}

/// The result for one node's record.
public struct NodeVerdict: Sendable, Equatable, CustomStringConvertible {
    public enum Finding: Sendable, Equatable {
        case intact(ChainRange)
        case unsealed(ChainRange)
        case broken(ChainBreak)
        /// No key of the node is known, neither from the auditor nor from another record. The hash chain is consistent,
        /// but any program can compute such a chain.
        case unverified(ChainRange?)
    }

    public let node: AuditNode
    public let finding: Finding
    /// The source of the keys with which the node's checkpoints were verified; nil if none was verified.
    public let source: KeySource?

    init(node: AuditNode, finding: Finding, source: KeySource? = nil) {
        self.node = node
        self.finding = finding
        self.source = source
    }

    public var isIntact: Bool { if case .intact = finding { true } else { false } }

    /// False if no key is known for the node.
    public var isVerified: Bool { if case .unverified = finding { false } else { true } }

    /// The exit status of a verification of this record alone (``ChainVerdict/exitStatus``).
    public var exitStatus: Int32 {
        switch finding {
        case .intact(let range): ChainVerdict.intact([range]).exitStatus
        case .unsealed(let range): ChainVerdict.unsealed([range]).exitStatus
        case .broken, .unverified: 1
        }
    }

    /// The range of the node's chain in the export; nil if the chain is broken, or if nothing was read.
    public var range: ChainRange? {
        switch finding {
        case .intact(let range), .unsealed(let range): range
        case .unverified(let range): range
        case .broken: nil
        }
    }

    public var description: String {
        switch finding {
        case .intact(let range), .unsealed(let range):
            return range.summary + (source.map { ", \($0)" } ?? "") + range.unendorsedSentences
        case .broken(let fault): return fault.description
        case .unverified(let range):
            return
                "unverified: node \(node.name), \(range?.extent ?? "no record"), no key given and none pinned: nothing "
                + "was verified"
        }
    }
}

/// The results for several nodes' records.
public struct NodesVerdict: Sendable, Equatable, CustomStringConvertible {
    /// The fault of a line that is neither a record nor a checkpoint; later lines were not read.
    public let fault: ChainBreak?
    /// The result for each node, sorted by name.
    public let nodes: [NodeVerdict]
    /// The number of records in a filtered export (``FilteredExport``), which proves nothing about its records. Nil for
    /// an unfiltered export.
    public let filteredRecords: Int?
    /// The nodes that have no line in the export, although records in the export name their keys. Sorted by name;
    /// empty if one node was requested.
    public let absentNodes: [AuditNode]

    init(
        fault: ChainBreak?, nodes: [NodeVerdict], filteredRecords: Int? = nil, absentNodes: [AuditNode] = []
    ) {
        self.fault = fault
        self.nodes = nodes
        self.filteredRecords = filteredRecords
        self.absentNodes = absentNodes
    }

    public var isIntact: Bool {
        fault == nil && filteredRecords == nil && !nodes.isEmpty && nodes.allSatisfy(\.isIntact)
    }

    /// The exit status of a verification (``ChainVerdict/exitStatus``). An absent node counts like a chain whose end is
    /// unknown.
    public var exitStatus: Int32 {
        let statuses = nodes.map(\.exitStatus)
        guard fault == nil, filteredRecords == nil, !nodes.isEmpty, !statuses.contains(1) else { return 1 }
        return absentNodes.isEmpty && !statuses.contains(2) ? 0 : 2
    }

    /// One line for each node, as `scripts/verify-audit` prints it.
    public var description: String {
        var lines = fault.map { [$0.description] } ?? []
        if let filteredRecords {
            lines.append(ChainVerdict.filtered(records: filteredRecords).description)
        } else {
            lines += nodes.map(\.description)
        }
        return lines.isEmpty ? ChainVerdict.unsealed([]).description : lines.joined(separator: "\n")
    }
}
