/// On whose word a node's checkpoints are believed.
public enum KeySource: Sendable, Equatable, CustomStringConvertible {
    /// The auditor's.
    case given
    /// This node's own record, which was verified itself.
    case pinned(by: AuditNode)
    /// The daemon's that was asked, for its own record.
    case own

    public var description: String {
        switch self {
        case .given: "key given"
        case .pinned(let node): "key pinned by node \(node.name)"
        case .own: "own key, as the daemon says"
        }
    }
}

/// Which keys are believed for which node.
public struct TrustedKeys: Sendable {
    /// Given for all nodes; nil: none.
    private let given: CheckpointKeys?
    /// Given for one node: nothing else counts for it.
    private var givenFor: [AuditNode: CheckpointKeys] = [:]
    private var own: (node: AuditNode, keys: CheckpointKeys)?
    private var pins: (node: AuditNode, KeyPins)?

    /// - Parameter given: by the auditor, for every node.
    public init(given: CheckpointKeys? = nil) {
        self.given = given
    }

    /// The auditor says that these are the node's, and no others.
    public mutating func give(_ keys: CheckpointKeys, for node: AuditNode) {
        givenFor[node] = givenFor[node]?.joined(by: keys) ?? keys
    }

    /// The daemon says that these are its own.
    public mutating func believe(own keys: CheckpointKeys, of node: AuditNode) { own = (node, keys) }

    /// What a node's record pins, as far as it was verified.
    public mutating func believe(_ pins: KeyPins, of node: AuditNode) { self.pins = (node, pins) }

    /// The nodes that the record pins keys of.
    public var pinnedNodes: Set<AuditNode> { Set(pins?.1.keys.keys ?? [:].keys) }

    /// The nodes that a key of their own is given for.
    public var boundNodes: Set<AuditNode> { Set(givenFor.keys) }

    /// All that may have signed the node's checkpoints; nil where none is known.
    public func keys(of node: AuditNode) -> CheckpointKeys? {
        if let bound = givenFor[node] { return bound }
        let pinned = pins?.1.keys[node].map(CheckpointKeys.init)
        let stated = given ?? (own?.node == node ? own?.keys : nil)
        guard let pinned else { return stated }
        return stated?.joined(by: pinned) ?? pinned
    }

    /// Where the keys come from that signed; nil where none did.
    func source(of signers: Set<AuditDigest>, node: AuditNode) -> KeySource? {
        guard !signers.isEmpty, keys(of: node) != nil else { return nil }
        if let known = givenFor[node] ?? given, signers.allSatisfy({ known[$0] != nil }) { return .given }
        if let own, own.node == node, signers.allSatisfy({ own.keys[$0] != nil }) { return .own }
        return pins.map { .pinned(by: $0.node) }
    }

    /// The pins' fault, where they are what is believed of the node.
    func pinFault(of node: AuditNode) -> ChainBreak? {
        guard givenFor[node] == nil else { return nil }
        return pins?.1.unvouched[node]
    }
}

/// Verifies the records of several nodes, each by itself: a fault of one chain leaves the others' verdicts as they are.
///
/// Lines come in any interleaving. Memory grows with the number of nodes, which is bounded, and not with that of lines.
public struct NodesVerifier: Sendable {
    /// What is done with lines of other nodes than the one that is wanted.
    public enum OtherNodesPolicy: Sendable {
        /// They stand in the same export, and are somebody else's question.
        case skipped
        /// They have no business among the lines of one node.
        case refused
    }

    private let trusted: TrustedKeys
    private let heads: [SignedCheckpoint]
    private let wanted: (node: AuditNode, others: OtherNodesPolicy)?
    private let readsPins: Bool
    private let beginning: ChainBeginning
    private var chains: [AuditNode: ChainVerifier] = [:]
    private var splitter = LineSplitter()
    private var isFiltered = false
    private var lastGood: ChainPosition?
    /// A line that is no node's.
    private var fault: ChainBreak?

    public private(set) var lines = 0
    public var records: Int { chains.values.reduce(0) { $0 + $1.records } }

    /// What the nodes' records say of their archives, as far as their checkpoints seal it.
    public var archives: [AuditNode: [RecordArchive]] {
        chains.reduce(into: [:]) { archives, chain in archives[chain.key] = chain.value.archives[chain.key] }
    }

    /// What the wanted node's record pins, as far as its checkpoints seal it.
    public var pins: KeyPins { wanted.flatMap { chains[$0.node]?.pins } ?? KeyPins() }

    /// - Parameters:
    ///   - node: the only one that is verified; nil for all that there are lines of.
    ///   - readsPins: whether ``pins`` is filled.
    ///   - beginning: where each chain has to begin.
    public init(
        _ trusted: TrustedKeys, heads: [SignedCheckpoint] = [], only node: AuditNode? = nil,
        others: OtherNodesPolicy = .skipped, readsPins: Bool = false,
        beginning: ChainBeginning = .anywhere
    ) {
        self.readsPins = readsPins
        self.beginning = beginning
        self.trusted = trusted
        self.heads = heads
        wanted = node.map { ($0, others) }
    }

    /// Whether no further line can change the verdict.
    public var isOver: Bool {
        if fault != nil { return true }
        guard let wanted, wanted.others == .refused else { return false }
        return chains[wanted.node]?.fault != nil
    }

    /// Takes the next bytes, in pieces of any size.
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
        // The chain's own verifier reads the rest of it.
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
            readsPins: readsPins && keys != nil, beginning: beginning)
        verifier.isFiltered = isFiltered
        return verifier
    }

    /// What was found, when there are no more lines.
    ///
    /// - Parameter expected: nodes that there must be lines of; where all nodes are verified, those too that are pinned or that
    ///   a key of their own is given for.
    public func verdict(expecting expected: Set<AuditNode> = []) -> NodesVerdict {
        var fault = fault
        if fault == nil, splitter.holdsPart { fault = ChainBreak(line: lines + 1, fault: .incompleteLine) }
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
        return NodesVerdict(fault: fault, nodes: named.sorted().map(verdict(of:)))
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

/// What was found of one node's record.
public struct NodeVerdict: Sendable, Equatable, CustomStringConvertible {
    public enum Finding: Sendable, Equatable {
        case intact(ChainRange)
        case unsealed(ChainRange)
        case broken(ChainBreak)
        /// Neither was a key given for it nor is one pinned. Its hashes follow from each other, which anybody can compute.
        case unverified(ChainRange?)
    }

    public let node: AuditNode
    public let finding: Finding
    /// On whose word its checkpoints are believed; nil where none was.
    public let source: KeySource?

    init(node: AuditNode, finding: Finding, source: KeySource? = nil) {
        self.node = node
        self.finding = finding
        self.source = source
    }

    public var isIntact: Bool { if case .intact = finding { true } else { false } }

    /// The span that the export has of it; nil where it is broken, or nothing was read.
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

/// What was found of several nodes' records.
public struct NodesVerdict: Sendable, Equatable, CustomStringConvertible {
    /// What is wrong with a line that is no node's; nothing behind it was looked at.
    public let fault: ChainBreak?
    /// By their names.
    public let nodes: [NodeVerdict]
    /// How many records a selection has, of which nothing is proved; nil for whole chains.
    public let filteredRecords: Int?

    init(fault: ChainBreak?, nodes: [NodeVerdict], filteredRecords: Int? = nil) {
        self.fault = fault
        self.nodes = nodes
        self.filteredRecords = filteredRecords
    }

    /// 0 when every node's record is intact, else 1.
    public var exitStatus: Int32 {
        fault == nil && filteredRecords == nil && !nodes.isEmpty && nodes.allSatisfy(\.isIntact) ? 0 : 1
    }

    /// One line a node; the same as `scripts/verify-audit` prints.
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
