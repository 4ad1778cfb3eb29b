/// Verifies an export, or the ledger itself, line by line. It finds every changed, removed, inserted or reordered
/// record up to the last checkpoint. Memory use does not grow with the number of lines.
///
/// An export has the lines of one node or of several, in any order between nodes; each node's lines are verified as one
/// chain. A node's lines begin with record 1, or with the signed checkpoint of the record before its first one. From
/// there every record follows the previous one, and every checkpoint comes after the record that it seals and before
/// the node's next record. Inserted lines of another node are therefore detected: their chain has no beginning, or no
/// checkpoint seals them.
///
/// An export that begins with the line of ``FilteredExport`` is a selection. Its lines are parsed and the signatures of
/// its checkpoints are checked, but its verdict is ``ChainVerdict/filtered(records:)``, which proves nothing.
///
/// A ledger whose oldest records were archived (``RecordArchive``) begins with the checkpoint of the archive's last
/// record, and a later sealed record names that archive. Archives and the remaining records, concatenated, are one
/// chain. The checkpoint that ends one part and begins the next then appears twice.
///
/// With the same keys for all nodes (``init(keys:heads:readsPins:beginning:isLive:)``), the first fault ends the
/// verification, and later lines are not read. With the keys of each node
/// (``init(separately:heads:only:others:readsPins:beginning:isLive:)``), a fault of one chain does not affect the
/// verdicts on the others.
///
/// A chain that was truncated after a checkpoint, or replaced by an older ledger, is detected only by comparison with a
/// head that was stored elsewhere.
public struct ChainVerifier: Sendable {
    /// The maximum number of nodes, which bounds the memory.
    public static let maximumNodes = 1024

    /// The treatment of lines that belong to another node than the requested one.
    public enum OtherNodesPolicy: Sendable {
        /// Lines of other nodes are permitted, and are not verified.
        case skipped
        /// The export must not contain lines of other nodes; the first such line is a fault.
        case refused
    }

    /// The number of lines read so far, for displaying progress. ``records`` is the number of records among them.
    public private(set) var lines = 0
    public private(set) var records = 0
    /// The first fault, as soon as it is found. If the nodes are verified separately, the fault of a line that belongs
    /// to no node.
    public private(set) var fault: ChainBreak?

    /// The keys of other nodes that are named as trusted in sealed records; empty unless the verifier was created
    /// with `readsPins`.
    public private(set) var pins = KeyPins()

    private let trusted: TrustedKeys
    private let heads: [SignedCheckpoint]
    private let wanted: (node: AuditNode, others: OtherNodesPolicy)?
    private let isSeparate: Bool
    private let readsPins: Bool
    private let beginning: ChainBeginning
    private let isLive: Bool
    /// The nodes whose keys are named in sealed records.
    private var namedNodes: Set<AuditNode> = []
    private var chains: [AuditNode: NodeChain] = [:]
    private var lastGood: ChainPosition?
    /// True if the export is a selection, as its first line says.
    private var isFiltered = false
    private var splitter = LineSplitter()

    /// Verifies all nodes together.
    ///
    /// - Parameters:
    ///   - keys: the public keys that may have signed. If nil, the hash chain is verified but no signature is.
    ///   - heads: checkpoints that were stored elsewhere; the export must include the records that they seal.
    ///   - readsPins: true to fill ``pins``.
    ///   - beginning: the required beginning of each chain.
    ///   - isLive: true if the lines come from the daemon itself, so that their end is the record's present end.
    public init(
        keys: CheckpointKeys?, heads: [SignedCheckpoint] = [], readsPins: Bool = false,
        beginning: ChainBeginning = .anyRecord, isLive: Bool = false
    ) {
        (trusted, self.heads, wanted, isSeparate) = (TrustedKeys(given: keys), heads, nil, false)
        (self.readsPins, self.beginning, self.isLive) = (readsPins, beginning, isLive)
        fault = NodeChain.signatureFault(ofHeads: heads, keys)
    }

    /// Verifies each node by itself.
    ///
    /// - Parameters:
    ///   - trusted: the keys that may have signed, by node. Nothing is verified for a node without a key.
    ///   - node: the only node to verify; nil for all nodes that have lines.
    public init(
        separately trusted: TrustedKeys, heads: [SignedCheckpoint] = [], only node: AuditNode? = nil,
        others: OtherNodesPolicy = .skipped, readsPins: Bool = false,
        beginning: ChainBeginning = .anyRecord, isLive: Bool = false
    ) {
        (self.trusted, self.heads, wanted, isSeparate) = (trusted, heads, node.map { ($0, others) }, true)
        (self.readsPins, self.beginning, self.isLive) = (readsPins, beginning, isLive)
    }

    /// The nodes that have no line, although their keys are named in sealed records.
    public var absentNodes: Set<AuditNode> { namedNodes.subtracting(chains.keys) }

    /// The archives that are named in the nodes' sealed records: the last ones of each node, at most
    /// 1,024.
    public var archives: [AuditNode: [RecordArchive]] {
        chains.compactMapValues { $0.archives.isEmpty ? nil : $0.archives }
    }

    /// True if no further line can change the verdict, so that the caller can stop reading.
    public var isOver: Bool {
        if fault != nil { return true }
        guard let wanted, wanted.others == .refused else { return false }
        return chains[wanted.node]?.fault != nil
    }

    /// The number of bytes that the verifier keeps between two calls, without those of keys, heads and ``pins``. Tests
    /// check that it does not grow with the lines.
    var retainedBytes: Int { splitter.retainedBytes + chains.count * (MemoryLayout<NodeChain>.size + 160) }

    // MARK: Reading

    /// Takes the next bytes of an export, in pieces of any size.
    public mutating func consume(_ bytes: ArraySlice<UInt8>) {
        guard fault == nil else { return }
        for line in splitter.take(bytes) where fault == nil { consume(line: line) }
        if fault == nil, splitter.isOverlong { fault = ChainBreak(line: lines + 1, fault: .lineTooLong) }
    }

    /// Takes one line without its line feed.
    public mutating func consume(line: [UInt8]) {
        guard fault == nil else { return }
        lines += 1
        guard line.count <= AuditLine.maximumBytes else { return fail(.lineTooLong) }
        // In a filtered export of several nodes, each node's part begins with the filter's line.
        if lines == 1 || isFiltered, FilteredExport.isFirstLine(line) {
            isFiltered = true
            return
        }
        guard let content = ChainLine(line) else { return fail(.malformed(lastGood: lastGood)) }
        let position = content.position
        let node = position.node
        lastGood = position
        if let wanted, wanted.node != node {
            if wanted.others == .refused { fail(.ofAnotherNode(than: wanted.node), at: position) }
            return
        }
        let isFull = chains[node] == nil && chains.count == Self.maximumNodes
        if isFull, isSeparate { return fail(.tooManyNodes) }
        // The lines of a selection form no chain. If the keys are the same for all nodes, one chain checks all signatures.
        let slot = isFiltered && !isSeparate ? chains.keys.first ?? node : node
        if chains[slot] == nil { chains[slot] = chain(of: slot) }
        guard chains[slot]?.take(content, line, isSelection: isFiltered, isFull: isFull, number: lines) == true else {
            if !isSeparate { fault = chains[slot]?.fault }
            return
        }
        if position.kind == .record { records += 1 } else if !isFiltered { seal(node) }
    }

    private func chain(of node: AuditNode) -> NodeChain {
        let keys = trusted.keys(of: node)
        var chain = NodeChain(
            node, keys: keys, heads: isSeparate && (keys == nil || isFiltered) ? [] : heads, beginning: beginning)
        if isSeparate { chain.checkHeads() }
        return chain
    }

    /// Trusts what the records of a node's chain say that a checkpoint has just sealed.
    private mutating func seal(_ node: AuditNode) {
        guard let sealed = chains[node]?.takeSealedPins(), !sealed.isEmpty else { return }
        let isWhole = chains[node]?.start == 0
        for (sequence, pin) in sealed {
            if namedNodes.count < Self.maximumNodes { namedNodes.insert(pin.node) }
            if readsPins { pins.add(pin, recordedAt: sequence, by: node, isWhole: isWhole) }
        }
    }

    private mutating func fail(_ found: ChainFault, at position: ChainPosition? = nil) {
        fault = ChainBreak(line: lines, position, fault: found)
    }

    // MARK: The verdict

    /// The fault of the whole export, including an end that is no whole line.
    private var faultOfExport: ChainBreak? {
        fault ?? (splitter.endsInIncompleteLine ? ChainBreak(line: lines + 1, fault: .incompleteLine) : nil)
    }

    /// Returns the result of a verification of all nodes together; to be called after the last line.
    public func verdict() -> ChainVerdict {
        if let fault = faultOfExport { return .broken(fault) }
        if isFiltered { return .filtered(records: records) }
        let chains = self.chains.values.sorted { $0.node < $1.node }
        if let missing = chains.lazy.compactMap(\.unexplained).first { return .broken(missing) }
        for head in heads {
            if let fault = NodeChain.fault(of: head, in: self.chains[head.checkpoint.node]) { return .broken(fault) }
        }
        let ranges = chains.compactMap { $0.range(isLive: isLive) }
        let isSealed = !ranges.isEmpty && ranges.allSatisfy(\.isSealed)
        return isSealed ? .intact(ranges) : .unsealed(ranges)
    }

    /// Returns the result of a verification of each node by itself; to be called after the last line.
    ///
    /// - Parameter expected: nodes that must have lines. If all nodes are verified, ``TrustedKeys/pinnedNodes`` and
    ///   ``TrustedKeys/boundNodes`` must have lines as well.
    public func verdictOfNodes(expecting expected: Set<AuditNode> = []) -> NodesVerdict {
        let fault = faultOfExport
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
        return NodesVerdict(
            fault: fault, nodes: named.sorted().map(verdict(of:)),
            absentNodes: wanted == nil ? absentNodes.subtracting(named).sorted() : [])
    }

    private func verdict(of node: AuditNode) -> NodeVerdict {
        guard let chain = chains[node] else {
            let position = ChainPosition(node: node, kind: .record, sequence: 0)
            return NodeVerdict(node: node, finding: .broken(ChainBreak(line: nil, position, fault: .noLines)))
        }
        if let fault = trusted.pinFault(of: node) ?? chain.faultAtEnd {
            return NodeVerdict(node: node, finding: .broken(fault))
        }
        guard let range = chain.range(isLive: isLive), trusted.keys(of: node) != nil else {
            return NodeVerdict(node: node, finding: .unverified(chain.range(isLive: isLive)))
        }
        return NodeVerdict(
            node: node, finding: range.isSealed ? .intact(range) : .unsealed(range),
            source: trusted.source(of: range.signers, node: node))
    }
}

/// The required beginning of a chain.
public enum ChainBeginning: Sendable, Equatable {
    /// Record 1, or any signed checkpoint. Earlier records of the chain may then be missing from the export.
    case anyRecord
    /// Record 1, or the last checkpoint of an archive that a sealed record of the same chain names. If an attacker
    /// removed a chain's beginning, no sealed record names such an archive.
    case afterArchive
    /// Record 1 only.
    case record1
}
