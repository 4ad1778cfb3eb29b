/// Verifies an export, or the ledger itself, line by line: finds every changed, removed, inserted or reordered record
/// up to the last checkpoint. Memory does not grow with the number of lines.
///
/// An export holds lines of one node or of several, in any interleaving; each node's are verified as its own chain.
/// A node's lines begin with record 1, or with the signed checkpoint of the record before its first one. From there
/// every record follows the one before it, and every checkpoint stands behind the record that it seals, before the
/// next one of its node. So another node's lines among a chain's are found: they begin nowhere, or nothing of that
/// node's seals them.
///
/// An export that begins with a filter's line is a selection: its lines are read and its checkpoints' signatures checked,
/// and the verdict is that it proves nothing.
///
/// The first fault ends the verification; what follows it is not looked at. Not found, and found with a head that was
/// kept elsewhere: the end of a chain cut off behind a checkpoint, or an older ledger in its place.
public struct ChainVerifier: Sendable {
    /// More nodes than these are refused, to bound the memory.
    public static let maximumNodes = 1024

    /// How many lines were taken, and how many of them were records; for showing progress.
    public private(set) var lines = 0
    public private(set) var records = 0
    /// What is wrong, as soon as it is found.
    public private(set) var fault: ChainBreak?

    private let keys: CheckpointKeys
    private let heads: [SignedCheckpoint]
    private var chains: [AuditNode: ChainState] = [:]
    private var lastGood: ChainPosition?
    private var isFiltered = false
    /// The beginning of a line whose line feed has not come yet.
    private var pending: [UInt8] = []

    /// - Parameters:
    ///   - keys: the public keys that may have signed.
    ///   - heads: checkpoints that were kept elsewhere; the export must hold their records and more.
    public init(keys: CheckpointKeys, heads: [SignedCheckpoint] = []) {
        self.keys = keys
        self.heads = heads
        for head in heads where fault == nil {
            if let wrong = signatureFault(of: head) { fault = Self.atHead(head, wrong) }
        }
    }

    /// How many bytes are kept between two calls, beside the keys and heads that were given.
    var retainedBytes: Int { pending.capacity + chains.count * (MemoryLayout<ChainState>.size + 160) }

    /// Takes the next bytes of an export, in pieces of any size.
    public mutating func consume(_ bytes: ArraySlice<UInt8>) {
        var rest = bytes
        while fault == nil, let lineFeed = rest.firstIndex(of: 0x0A) {
            if pending.isEmpty {
                consume(line: Array(rest[..<lineFeed]))
            } else {
                pending.append(contentsOf: rest[..<lineFeed])
                let line = pending
                pending.removeAll(keepingCapacity: true)
                consume(line: line)
            }
            rest = rest[(lineFeed + 1)...]
        }
        guard fault == nil else { return }
        if pending.count + rest.count > AuditLine.maximumBytes {
            fault = ChainBreak(line: lines + 1, fault: .lineTooLong)
        } else {
            pending.append(contentsOf: rest)
        }
    }

    /// Takes one line without its line feed.
    public mutating func consume(line: [UInt8]) {
        guard fault == nil else { return }
        lines += 1
        do {
            try check(line)
        } catch {
            fault = error
        }
    }

    /// What was found, when there are no more lines.
    public func verdict() -> ChainVerdict {
        if let fault { return .broken(fault) }
        if !pending.isEmpty { return .broken(ChainBreak(line: lines + 1, fault: .incompleteLine)) }
        if isFiltered { return .filtered(records: records) }
        for head in heads {
            guard let chain = chains[head.checkpoint.node] else { return .broken(Self.atHead(head, .headOfNoNode)) }
            if chain.last < head.checkpoint.sequence {
                return .broken(Self.atHead(head, .endsBeforeHead(last: chain.last)))
            }
            if chain.start > head.checkpoint.sequence {
                return .broken(Self.atHead(head, .beginsAfterHead(first: chain.start + 1)))
            }
        }
        let ranges = chains.sorted { $0.key < $1.key }.map { node, chain in
            ChainRange(
                node: node, start: chain.start, last: chain.last, sealed: chain.sealed, sealedAt: chain.sealedAt)
        }
        let isSealed = !ranges.isEmpty && ranges.allSatisfy { $0.unsealed == 0 && $0.sealedAt != nil }
        return isSealed ? .intact(ranges) : .unsealed(ranges)
    }

    private mutating func check(_ line: [UInt8]) throws(ChainBreak) {
        guard line.count <= AuditLine.maximumBytes else { throw ChainBreak(line: lines, fault: .lineTooLong) }
        if lines == 1, FilteredExport.isFirstLine(line) {
            isFiltered = true
            return
        }
        if let frame = RecordFrame(line) {
            let position = ChainPosition(node: frame.node, kind: .record, sequence: frame.sequence)
            try check(frame, at: position)
            records += 1
            lastGood = position
        } else if let signed = SignedCheckpoint(line: line) {
            let position = ChainPosition(signed.checkpoint)
            try check(signed, at: position)
            lastGood = position
        } else {
            throw ChainBreak(line: lines, fault: .malformed(lastGood: lastGood))
        }
    }

    private mutating func check(_ frame: RecordFrame, at position: ChainPosition) throws(ChainBreak) {
        if isFiltered { return }
        let known = chains[frame.node]
        if known == nil, frame.sequence > 1 { throw broken(position, .noBeginning) }
        if known == nil, chains.count == Self.maximumNodes { throw broken(position, .tooManyNodes) }
        var chain = known ?? ChainState(start: 0, hash: .zero)
        if let misplaced = chain.fault(ofRecord: frame.sequence) { throw broken(position, misplaced) }
        guard AuditDigest.following(chain.hash, body: frame.body) == frame.hash else {
            throw broken(position, .changed)
        }
        if differsFromHead(position, frame.hash) { throw broken(position, .differsFromHead) }
        chain.last = frame.sequence
        chain.hash = frame.hash
        chains[frame.node] = chain
    }

    private mutating func check(_ signed: SignedCheckpoint, at position: ChainPosition) throws(ChainBreak) {
        if let wrong = signatureFault(of: signed) { throw broken(position, wrong) }
        if isFiltered { return }
        let checkpoint = signed.checkpoint
        let known = chains[checkpoint.node]
        if known == nil, chains.count == Self.maximumNodes { throw broken(position, .tooManyNodes) }
        var chain = known ?? ChainState(start: checkpoint.sequence, hash: checkpoint.hash)
        if let misplaced = chain.fault(ofCheckpoint: checkpoint.sequence) { throw broken(position, misplaced) }
        guard chain.hash == checkpoint.hash else {
            throw broken(position, .sealsAnother(sealedBefore: chain.sealed))
        }
        if differsFromHead(position, checkpoint.hash) { throw broken(position, .differsFromHead) }
        chain.sealed = checkpoint.sequence
        chain.sealedAt = checkpoint.time
        chains[checkpoint.node] = chain
    }

    private func broken(_ position: ChainPosition, _ fault: ChainFault) -> ChainBreak {
        ChainBreak(line: lines, position, fault: fault)
    }

    private func differsFromHead(_ position: ChainPosition, _ hash: AuditDigest) -> Bool {
        heads.contains { head in
            head.checkpoint.sequence == position.sequence && head.checkpoint.node == position.node
                && head.checkpoint.hash != hash
        }
    }

    private func signatureFault(of signed: SignedCheckpoint) -> ChainFault? {
        guard let key = keys[signed.checkpoint.keyId] else { return .anotherKey }
        return key.verifies(signed) ? nil : .wrongSignature
    }

    private static func atHead(_ head: SignedCheckpoint, _ fault: ChainFault) -> ChainBreak {
        ChainBreak(line: nil, ChainPosition(head.checkpoint), fault: fault)
    }
}

extension ChainPosition {
    fileprivate init(_ checkpoint: Checkpoint) {
        self.init(node: checkpoint.node, kind: .checkpoint, sequence: checkpoint.sequence)
    }
}

/// Where one node's chain stands.
private struct ChainState: Sendable {
    /// The sequence before the first record, and all that is kept of it.
    let start: Int
    var last: Int
    var hash: AuditDigest
    var sealed: Int
    var sealedAt: AuditTime?

    init(start: Int, hash: AuditDigest) {
        self.start = start
        self.last = start
        self.sealed = start
        self.hash = hash
    }

    /// A record comes next after the last one.
    func fault(ofRecord sequence: Int) -> ChainFault? {
        if sequence > last + 1 { return .missing(from: last + 1, to: sequence - 1) }
        return sequence <= last ? .outOfOrder(after: last) : nil
    }

    /// A checkpoint seals the last record.
    func fault(ofCheckpoint sequence: Int) -> ChainFault? {
        if sequence > last { return .missing(from: last + 1, to: sequence) }
        return sequence < last ? .outOfOrder(after: last) : nil
    }
}
