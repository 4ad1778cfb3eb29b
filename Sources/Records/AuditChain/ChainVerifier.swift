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
/// A ledger whose ``RecordArchive`` was taken out begins behind it, and says so: its first checkpoint is that of the archive's last
/// record, and a sealed record behind it names that archive. Archives and what begins behind them are one chain when they are given
/// one after the other: the checkpoint with which one ends and the next one begins stands there twice.
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

    /// What the records pin that a checkpoint seals, where it is asked for.
    public private(set) var pins = KeyPins()

    /// Nil: nothing says whose signatures are right, so none is checked.
    private let keys: CheckpointKeys?
    private let heads: [SignedCheckpoint]
    private let readsPins: Bool
    private let beginning: ChainBeginning
    /// What the records say of archives, as far as a checkpoint seals it: of each node the last ones, at most
    /// ``maximumArchives``.
    public private(set) var archives: [AuditNode: [RecordArchive]] = [:]
    /// Of one node; more than a monthly archive for a lifetime.
    static let maximumArchives = 1024
    private var unsealedArchives: [AuditNode: [RecordArchive]] = [:]
    /// Chains that begin with a checkpoint, and that no archive accounts for yet.
    private var unexplained: [AuditNode: ChainBreak] = [:]
    /// Pins that no checkpoint seals yet.
    private var unsealedPins: [(sequence: Int, pin: KeyPin)] = []
    private var chains: [AuditNode: ChainState] = [:]
    private var lastGood: ChainPosition?
    /// The export is a selection, as its first line says.
    var isFiltered = false
    private var splitter = LineSplitter()

    /// - Parameters:
    ///   - keys: the public keys that may have signed; nil where none is known: the hashes are followed, and no signature is checked.
    ///   - heads: checkpoints that were kept elsewhere; the export must hold their records and more.
    ///   - readsPins: whether ``pins`` is filled.
    ///   - beginning: where each chain has to begin.
    public init(
        keys: CheckpointKeys?, heads: [SignedCheckpoint] = [], readsPins: Bool = false,
        beginning: ChainBeginning = .anywhere
    ) {
        self.keys = keys
        self.beginning = beginning
        self.heads = heads
        self.readsPins = readsPins
        for head in heads where fault == nil {
            if let wrong = signatureFault(of: head) { fault = Self.atHead(head, wrong) }
        }
    }

    /// How many bytes are kept between two calls, beside the keys, heads and pins.
    var retainedBytes: Int { splitter.retainedBytes + chains.count * (MemoryLayout<ChainState>.size + 160) }

    /// Takes the next bytes of an export, in pieces of any size.
    public mutating func consume(_ bytes: ArraySlice<UInt8>) {
        guard fault == nil else { return }
        for line in splitter.take(bytes) where fault == nil { consume(line: line) }
        if fault == nil, splitter.isOverlong { fault = ChainBreak(line: lines + 1, fault: .lineTooLong) }
    }

    /// Takes one line without its line feed.
    public mutating func consume(line: [UInt8]) {
        consume(line: line, number: lines + 1)
    }

    /// - Parameter number: the line's in its export.
    mutating func consume(line: [UInt8], number: Int) {
        guard fault == nil else { return }
        lines = number
        do {
            try check(line)
        } catch {
            fault = error
        }
    }

    /// What was found, when there are no more lines.
    public func verdict() -> ChainVerdict {
        if let fault { return .broken(fault) }
        if splitter.holdsPart { return .broken(ChainBreak(line: lines + 1, fault: .incompleteLine)) }
        if isFiltered { return .filtered(records: records) }
        if let missing = unexplained.min(by: { $0.key < $1.key })?.value { return .broken(missing) }
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
                node: node, start: chain.start, last: chain.last, sealed: chain.sealed, sealedAt: chain.sealedAt,
                signers: chain.signers)
        }
        let isSealed = !ranges.isEmpty && ranges.allSatisfy(\.isSealed)
        return isSealed ? .intact(ranges) : .unsealed(ranges)
    }

    private mutating func check(_ line: [UInt8]) throws(ChainBreak) {
        guard line.count <= AuditLine.maximumBytes else { throw ChainBreak(line: lines, fault: .lineTooLong) }
        // Of an export of several nodes each one's part begins so.
        if lines == 1 || isFiltered, FilteredExport.isFirstLine(line) {
            isFiltered = true
            return
        }
        if let frame = RecordFrame(line) {
            let position = ChainPosition(node: frame.node, kind: .record, sequence: frame.sequence)
            try check(frame, at: position)
            if readsPins, let pin = KeyPin(line: line) { unsealedPins.append((frame.sequence, pin)) }
            if !isFiltered, frame.isEvent(RecordArchive.mark), let archive = RecordArchive(line: line) {
                unsealedArchives[frame.node] = (unsealedArchives[frame.node, default: []] + [archive])
                    .suffix(Self.maximumArchives)
            }
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
        var chain = known ?? ChainState(start: 0, startHash: .zero, last: 0, hash: .zero, sealed: 0)
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
        if known == nil, beginning != .anywhere, checkpoint.sequence > 0 {
            let missing = broken(position, .missing(from: 1, to: checkpoint.sequence))
            guard beginning == .behindArchive else { throw missing }
            unexplained[checkpoint.node] = missing
        }
        let (sequence, hash) = (checkpoint.sequence, checkpoint.hash)
        var chain = known ?? ChainState(start: sequence, startHash: hash, last: sequence, hash: hash, sealed: sequence)
        if let misplaced = chain.fault(ofCheckpoint: sequence) { throw broken(position, misplaced) }
        guard chain.hash == hash else {
            throw broken(position, .sealsAnother(sealedBefore: chain.sealed))
        }
        if differsFromHead(position, hash) { throw broken(position, .differsFromHead) }
        chain.sealed = sequence
        chain.sealedAt = checkpoint.time
        chain.signers.insert(checkpoint.keyId)
        chains[checkpoint.node] = chain
        for (sequence, pin) in unsealedPins {
            pins.add(pin, recordedAt: sequence, by: checkpoint.node, isWhole: chain.start == 0)
        }
        unsealedPins.removeAll()
        take(unsealedArchives.removeValue(forKey: checkpoint.node) ?? [], of: checkpoint.node, chain)
    }

    private mutating func take(_ sealed: [RecordArchive], of node: AuditNode, _ chain: ChainState) {
        guard !sealed.isEmpty else { return }
        archives[node] = (archives[node, default: []] + sealed).suffix(Self.maximumArchives)
        if sealed.contains(where: { $0.last == chain.start && $0.hash == chain.startHash }) { unexplained[node] = nil }
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
        guard let keys else { return nil }
        guard let key = keys[signed.checkpoint.keyId] else { return .anotherKey }
        return key.verifies(signed) ? nil : .wrongSignature
    }

    private static func atHead(_ head: SignedCheckpoint, _ fault: ChainFault) -> ChainBreak {
        ChainBreak(line: nil, ChainPosition(head.checkpoint), fault: fault)
    }
}

/// Where a chain has to begin.
public enum ChainBeginning: Sendable, Equatable {
    /// With record 1, or with the signed checkpoint before its first record: a part of it is enough.
    case anywhere
    /// With record 1, or behind an archive that a sealed record of the same chain names. A chain whose beginning somebody removed
    /// has no such record.
    case behindArchive
    /// With record 1.
    case record1
}

extension ChainPosition {
    /// Of a record's or a checkpoint's line; nil for any other.
    init?(line: [UInt8]) {
        if let frame = RecordFrame(line) {
            self.init(node: frame.node, kind: .record, sequence: frame.sequence)
        } else if let signed = SignedCheckpoint(line: line) {
            self.init(signed.checkpoint)
        } else {
            return nil
        }
    }

    fileprivate init(_ checkpoint: Checkpoint) {
        self.init(node: checkpoint.node, kind: .checkpoint, sequence: checkpoint.sequence)
    }
}

/// Where one node's chain stands.
private struct ChainState: Sendable {
    /// The sequence before the first record, and its hash.
    let start: Int
    let startHash: AuditDigest
    var last: Int
    var hash: AuditDigest
    var sealed: Int
    var sealedAt: AuditTime?
    /// As many as there are keys at most, where signatures are checked.
    var signers: Set<AuditDigest> = []

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
