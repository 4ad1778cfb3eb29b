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
/// The first fault ends the verification; later lines are not read. A chain that was truncated after a checkpoint, or
/// replaced by an older ledger, is detected only by comparison with a head that was stored elsewhere.
public struct ChainVerifier: Sendable {
    /// The maximum number of nodes, which bounds the memory.
    public static let maximumNodes = 1024

    /// The number of lines read so far, for displaying progress. ``records`` is the number of records among them.
    public private(set) var lines = 0
    public private(set) var records = 0
    /// The first fault, as soon as it is found.
    public private(set) var fault: ChainBreak?

    /// The keys of other nodes that are named as trusted in sealed records; empty unless the verifier was created
    /// with `readsPins`.
    public private(set) var pins = KeyPins()

    /// The keys that may have signed the checkpoints. If this is nil, no signature is checked.
    private let keys: CheckpointKeys?
    private let heads: [SignedCheckpoint]
    private let readsPins: Bool
    private let beginning: ChainBeginning
    private let isLive: Bool
    /// The nodes whose keys are named in sealed records. `unsealedNames` has the nodes whose keys are named in records
    /// that no checkpoint seals yet, by the node of the record.
    private var namedNodes: Set<AuditNode> = []
    private var unsealedNames: [AuditNode: Set<AuditNode>] = [:]
    /// The archives that are named in sealed records: the last ones of each node, at most ``maximumArchives``.
    public private(set) var archives: [AuditNode: [RecordArchive]] = [:]
    /// The maximum number of archives that are kept for one node, enough for one a month in 85 years.
    static let maximumArchives = 1024
    private var unsealedArchives: [AuditNode: [RecordArchive]] = [:]
    /// The chains that begin with a checkpoint, each with the fault to report if no sealed record of the chain names an
    /// archive that ends there.
    private var unexplained: [AuditNode: ChainBreak] = [:]
    /// The keys that are named as trusted in records that no checkpoint seals yet.
    private var unsealedPins: [(sequence: Int, pin: KeyPin)] = []
    private var chains: [AuditNode: ChainState] = [:]
    private var lastGood: ChainPosition?
    /// True if the export is a selection, as its first line says.
    var isFiltered = false
    private var splitter = LineSplitter()

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
        self.keys = keys
        self.beginning = beginning
        self.isLive = isLive
        self.heads = heads
        self.readsPins = readsPins
        for head in heads where fault == nil {
            if let wrong = signatureFault(of: head) { fault = Self.atHead(head, wrong) }
        }
    }

    /// The nodes that have no line, although their keys are named in sealed records.
    public var absentNodes: Set<AuditNode> { namedNodes.subtracting(chains.keys) }

    /// The number of bytes that the verifier keeps between two calls, without those of ``keys``, the heads and
    /// ``pins``. Tests check that it does not grow with the lines.
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

    /// - Parameter number: the line's number in its export.
    mutating func consume(line: [UInt8], number: Int) {
        guard fault == nil else { return }
        lines = number
        do {
            try check(line)
        } catch {
            fault = error
        }
    }

    /// Returns the result of the verification; to be called after the last line.
    public func verdict() -> ChainVerdict {
        if let fault { return .broken(fault) }
        if splitter.endsInIncompleteLine { return .broken(ChainBreak(line: lines + 1, fault: .incompleteLine)) }
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
                signers: chain.signers, endIsKnown: isLive || heads.contains { $0.checkpoint.node == node })
        }
        let isSealed = !ranges.isEmpty && ranges.allSatisfy(\.isSealed)
        return isSealed ? .intact(ranges) : .unsealed(ranges)
    }

    private mutating func check(_ line: [UInt8]) throws(ChainBreak) {
        guard line.count <= AuditLine.maximumBytes else { throw ChainBreak(line: lines, fault: .lineTooLong) }
        // In a filtered export of several nodes, each node's part begins with the filter's line.
        if lines == 1 || isFiltered, FilteredExport.isFirstLine(line) {
            isFiltered = true
            return
        }
        if let frame = RecordFrame(line) {
            let position = ChainPosition(node: frame.node, kind: .record, sequence: frame.sequence)
            try check(frame, at: position)
            if frame.isEvent(KeyPin.mark), let pin = KeyPin(line: line) {
                if readsPins { unsealedPins.append((frame.sequence, pin)) }
                if namedNodes.count < Self.maximumNodes {
                    unsealedNames[frame.node, default: []].insert(pin.node)
                }
            }
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
        if known == nil, beginning != .anyRecord, checkpoint.sequence > 0 {
            let missing = broken(position, .missing(from: 1, to: checkpoint.sequence))
            guard beginning == .afterArchive else { throw missing }
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
        namedNodes.formUnion(unsealedNames.removeValue(forKey: checkpoint.node) ?? [])
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

extension ChainPosition {
    /// Reads the position of a record or a checkpoint from its line; nil for any other line.
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

/// The state of one node's chain.
private struct ChainState: Sendable {
    /// The sequence before the first record, and the hash at that sequence.
    let start: Int
    let startHash: AuditDigest
    var last: Int
    var hash: AuditDigest
    var sealed: Int
    var sealedAt: AuditTime?
    /// The keyIds of the keys that signed the chain's checkpoints. If signatures are checked, there are at most as many
    /// as given keys.
    var signers: Set<AuditDigest> = []

    /// Returns nil if the sequence is the one after the chain's last record, and otherwise the fault.
    func fault(ofRecord sequence: Int) -> ChainFault? {
        if sequence > last + 1 { return .missing(from: last + 1, to: sequence - 1) }
        return sequence <= last ? .outOfOrder(after: last) : nil
    }

    /// Returns nil if the checkpoint's sequence is that of the chain's last record, and otherwise the fault.
    func fault(ofCheckpoint sequence: Int) -> ChainFault? {
        if sequence > last { return .missing(from: last + 1, to: sequence) }
        return sequence < last ? .outOfOrder(after: last) : nil
    }
}
