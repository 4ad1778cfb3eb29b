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

/// Verifies the records of several nodes separately: a fault of one chain does not affect the others' verdicts.
///
/// Lines may come in any order between nodes. Memory use grows with the number of nodes, which is bounded, but not with
/// the number of lines.
public struct NodesVerifier: Sendable {
    /// The treatment of lines that belong to another node than the requested one.
    public enum OtherNodesPolicy: Sendable {
        /// Lines of other nodes are permitted, and are not verified.
        case skipped
        /// The export must not contain lines of other nodes; the first such line is a fault.
        case refused
    }

    private let trusted: TrustedKeys
    private let heads: [SignedCheckpoint]
    private let wanted: (node: AuditNode, others: OtherNodesPolicy)?
    private let readsPins: Bool
    private let beginning: ChainBeginning
    private let isLive: Bool
    private var chains: [AuditNode: ChainVerifier] = [:]
    private var splitter = LineSplitter()
    private var isFiltered = false
    private var lastGood: ChainPosition?
    /// The fault of a line that is neither a record nor a checkpoint, and therefore belongs to no node.
    private var fault: ChainBreak?

    public private(set) var lines = 0
    public var records: Int { chains.values.reduce(0) { $0 + $1.records } }

    /// The archives that the nodes' sealed records name.
    public var archives: [AuditNode: [RecordArchive]] {
        chains.reduce(into: [:]) { archives, chain in archives[chain.key] = chain.value.archives[chain.key] }
    }

    /// The keys of other nodes that the requested node's sealed records name as trusted.
    public var pins: KeyPins { wanted.flatMap { chains[$0.node]?.pins } ?? KeyPins() }

    /// - Parameters:
    ///   - node: the only node to verify; nil for all nodes that have lines.
    ///   - readsPins: true to fill ``pins``.
    ///   - beginning: the required beginning of each chain.
    ///   - isLive: true if the lines come from the daemon itself, so that their end is the record's present end.
    public init(
        _ trusted: TrustedKeys, heads: [SignedCheckpoint] = [], only node: AuditNode? = nil,
        others: OtherNodesPolicy = .skipped, readsPins: Bool = false,
        beginning: ChainBeginning = .anyRecord, isLive: Bool = false
    ) {
        self.isLive = isLive
        self.readsPins = readsPins
        self.beginning = beginning
        self.trusted = trusted
        self.heads = heads
        wanted = node.map { ($0, others) }
    }

    /// True if no further line can change the verdict, so that the caller can stop reading.
    public var isOver: Bool {
        if fault != nil { return true }
        guard let wanted, wanted.others == .refused else { return false }
        return chains[wanted.node]?.fault != nil
    }

    /// Takes the next bytes of an export, in pieces of any size.
    public mutating func consume(_ bytes: ArraySlice<UInt8>) {
        guard fault == nil else { return }
        for line in splitter.take(bytes) where fault == nil { consume(line: line) }
        if fault == nil, splitter.isOverlong { fault = ChainBreak(line: lines + 1, fault: .lineTooLong) }
    }

    private mutating func consume(line: [UInt8]) {
        lines += 1
        if lines == 1 || isFiltered, FilteredExport.isFirstLine(line) {
            isFiltered = true
            return
        }
        // Check only the length and the position here. The chain's own verifier checks the whole line.
        guard line.count <= AuditLine.maximumBytes else {
            fault = ChainBreak(line: lines, fault: .lineTooLong)
            return
        }
        guard let position = ChainPosition(line: line) else {
            fault = ChainBreak(line: lines, fault: .malformed(lastGood: lastGood))
            return
        }
        lastGood = position
        let node = position.node
        if let wanted, wanted.node != node {
            if case .refused = wanted.others {
                fault = ChainBreak(line: lines, position, fault: .ofAnotherNode(than: wanted.node))
            }
            return
        }
        guard chains[node] != nil || chains.count < ChainVerifier.maximumNodes else {
            fault = ChainBreak(line: lines, fault: .tooManyNodes)
            return
        }
        if chains[node] == nil { chains[node] = verifier(of: node) }
        chains[node]?.consume(line: line, number: lines)
    }

    private func verifier(of node: AuditNode) -> ChainVerifier {
        let keys = trusted.keys(of: node)
        var verifier = ChainVerifier(
            keys: keys, heads: keys == nil || isFiltered ? [] : heads.filter { $0.checkpoint.node == node },
            readsPins: readsPins && keys != nil, beginning: beginning, isLive: isLive)
        verifier.isFiltered = isFiltered
        return verifier
    }

    /// Returns the result of the verification; to be called after the last line.
    ///
    /// - Parameter expected: nodes that must have lines. If all nodes are verified, ``TrustedKeys/pinnedNodes`` and
    ///   ``TrustedKeys/boundNodes`` must have lines as well.
    public func verdict(expecting expected: Set<AuditNode> = []) -> NodesVerdict {
        var fault = fault
        if fault == nil, splitter.endsInIncompleteLine { fault = ChainBreak(line: lines + 1, fault: .incompleteLine) }
        guard !isFiltered else {
            let wrong = chains.values.compactMap(\.fault).min { ($0.line ?? 0) < ($1.line ?? 0) }
            return NodesVerdict(fault: fault ?? wrong, nodes: [], filteredRecords: records)
        }
        var named = expected.union(chains.keys)
        if let wanted {
            named.insert(wanted.node)
        } else {
            named.formUnion(trusted.pinnedNodes.union(trusted.boundNodes))
        }
        for head in heads where wanted == nil || wanted?.node == head.checkpoint.node {
            named.insert(head.checkpoint.node)
        }
        let absent = wanted == nil ? chains.values.reduce(into: []) { $0.formUnion($1.absentNodes) } : Set<AuditNode>()
        return NodesVerdict(
            fault: fault, nodes: named.sorted().map(verdict(of:)), absentNodes: absent.subtracting(named).sorted())
    }

    private func verdict(of node: AuditNode) -> NodeVerdict {
        guard let chain = chains[node] else {
            return NodeVerdict(
                node: node,
                finding: .broken(
                    ChainBreak(line: nil, ChainPosition(node: node, kind: .record, sequence: 0), fault: .noLines)))
        }
        if let fault = trusted.pinFault(of: node) { return NodeVerdict(node: node, finding: .broken(fault)) }
        switch chain.verdict() {
        case .broken(let fault): return NodeVerdict(node: node, finding: .broken(fault))
        case .intact(let ranges), .unsealed(let ranges):
            guard let range = ranges.first else { return NodeVerdict(node: node, finding: .unverified(nil)) }
            guard trusted.keys(of: node) != nil else { return NodeVerdict(node: node, finding: .unverified(range)) }
            return NodeVerdict(
                node: node, finding: range.isSealed ? .intact(range) : .unsealed(range),
                source: trusted.source(of: range.signers, node: node))
        case .filtered: return NodeVerdict(node: node, finding: .unverified(nil))
        }
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
        let basis = source.map { ", \($0)" } ?? ""
        switch finding {
        case .intact(let range), .unsealed(let range): return range.description + basis
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
