/// A line of an export: a record or a checkpoint.
enum ChainLine {
    case record(RecordFrame)
    case checkpoint(SignedCheckpoint)

    /// Returns nil for any other line.
    init?(_ line: [UInt8]) {
        if let frame = RecordFrame(line) {
            self = .record(frame)
        } else if let signed = SignedCheckpoint(line: line) {
            self = .checkpoint(signed)
        } else {
            return nil
        }
    }

    var position: ChainPosition {
        switch self {
        case .record(let frame): ChainPosition(node: frame.node, kind: .record, sequence: frame.sequence)
        case .checkpoint(let signed): ChainPosition(signed.checkpoint)
        }
    }
}

extension ChainPosition {
    fileprivate init(_ checkpoint: Checkpoint) {
        self.init(node: checkpoint.node, kind: .checkpoint, sequence: checkpoint.sequence)
    }
}

/// The chain of one node, as far as ``ChainVerifier`` has read it.
struct NodeChain: Sendable {
    /// The maximum number of archives that are kept, enough for one a month in 85 years.
    static let maximumArchives = 1024

    let node: AuditNode
    /// The chain's first fault; later lines of the node are not read.
    private(set) var fault: ChainBreak?
    /// The sequence before the first record, and the hash at that sequence. Nil before the chain's first line.
    private(set) var start: Int?
    private var startHash = AuditDigest.zero
    private var last = 0
    private var hash = AuditDigest.zero
    private var sealed = 0
    private var sealedAt: AuditTime?
    /// The keyIds of the keys that signed the chain's checkpoints. If signatures are checked, there are at most as many
    /// as given keys.
    private var signers: Set<AuditDigest> = []
    /// The key that signed the last checkpoint, and the given keys that it endorses: those whose announcements it sealed.
    private var signer: AuditDigest?
    private var endorsed: Set<AuditDigest> = []
    private var unsealedAnnouncements: Set<AuditDigest> = []
    private var unendorsedKeys: [UnendorsedKey] = []
    /// The record with the earliest time of those that no checkpoint seals yet. It need not be the first, if the clock was
    /// set back.
    private var waiting: (sequence: Int, time: AuditTime)?
    private var lateSeals = LateSeals()
    /// The fault to report if the chain begins with a checkpoint and no sealed record names an archive that ends there.
    private(set) var unexplained: ChainBreak?
    /// The keys that are named as trusted in records that no checkpoint seals yet.
    private var unsealedPins: [(sequence: Int, pin: KeyPin)] = []
    /// The archives that are named in sealed records.
    private(set) var archives: [RecordArchive] = []
    private var unsealedArchives: [RecordArchive] = []

    /// The keys that may have signed the checkpoints. If this is nil, no signature is checked.
    private let keys: CheckpointKeys?
    private let heads: [SignedCheckpoint]
    private let beginning: ChainBeginning

    init(_ node: AuditNode, keys: CheckpointKeys?, heads: [SignedCheckpoint] = [], beginning: ChainBeginning) {
        self.node = node
        self.keys = keys
        self.heads = heads.filter { $0.checkpoint.node == node }
        self.beginning = beginning
    }

    // MARK: Reading

    /// Takes the next line of the chain.
    ///
    /// - Parameters:
    ///   - isSelection: true if lines may be missing, so that only signatures can be checked.
    ///   - isFull: true if the verifier has no room for another chain.
    ///   - number: the line's number in the export.
    /// - Returns: false if the chain has a fault.
    mutating func take(_ content: ChainLine, _ line: [UInt8], isSelection: Bool, isFull: Bool, number: Int) -> Bool {
        guard fault == nil else { return false }
        do throws(ChainFault) {
            switch content {
            case .record(let frame):
                guard !isSelection else { return true }
                try append(frame, isFull: isFull)
                if frame.isEvent(KeyPin.mark), let pin = KeyPin(line: line),
                    unsealedPins.count < 4 * ChainVerifier.maximumNodes
                {
                    unsealedPins.append((frame.sequence, pin))
                }
                if let key = AuditEntry.announcedAuditKey(line: line), keys?[key] != nil {
                    unsealedAnnouncements.insert(key)
                }
                if frame.isEvent(RecordArchive.mark), let archive = RecordArchive(line: line) {
                    unsealedArchives = (unsealedArchives + [archive]).suffix(Self.maximumArchives)
                }
            case .checkpoint(let signed):
                if let wrong = Self.signatureFault(of: signed, keys, unvouched: start.map { _ in sealed + 1 }) {
                    throw wrong
                }
                guard !isSelection else { return true }
                try seal(signed.checkpoint, isFull: isFull, number: number)
            }
            return true
        } catch {
            fault = ChainBreak(line: number, content.position, fault: error)
            return false
        }
    }

    private mutating func append(_ frame: RecordFrame, isFull: Bool) throws(ChainFault) {
        if start == nil {
            if frame.sequence > 1 { throw .noBeginning }
            if isFull { throw .tooManyNodes }
            start = 0
        }
        if frame.sequence > last + 1 { throw .missing(from: last + 1, to: frame.sequence - 1) }
        if frame.sequence <= last { throw .outOfOrder(after: last) }
        guard AuditDigest.following(hash, body: frame.body) == frame.hash else { throw .changed }
        if differsFromHead(frame.sequence, frame.hash) { throw .differsFromHead }
        (last, hash) = (frame.sequence, frame.hash)
        if let time = frame.time, waiting.map({ time < $0.time }) ?? true { waiting = (frame.sequence, time) }
    }

    private mutating func seal(_ checkpoint: Checkpoint, isFull: Bool, number: Int) throws(ChainFault) {
        let sequence = checkpoint.sequence
        if start == nil {
            if isFull { throw .tooManyNodes }
            if beginning != .anyRecord, sequence > 0 {
                let missing = ChainFault.missing(from: 1, to: sequence)
                guard beginning == .afterArchive else { throw missing }
                unexplained = ChainBreak(line: number, ChainPosition(checkpoint), fault: missing)
            }
            (start, startHash) = (sequence, checkpoint.hash)
            (last, hash, sealed) = (sequence, checkpoint.hash, sequence)
        }
        if sequence > last { throw .missing(from: last + 1, to: sequence) }
        if sequence < last { throw .outOfOrder(after: last) }
        guard hash == checkpoint.hash else { throw .sealsAnother(sealedBefore: sealed) }
        if differsFromHead(sequence, checkpoint.hash) { throw .differsFromHead }
        noteSigner(checkpoint.keyId)
        (sealed, sealedAt) = (sequence, checkpoint.time)
        if let waiting { lateSeals.add(first: waiting.sequence, from: waiting.time, last: last, to: checkpoint.time) }
        waiting = nil
        guard !unsealedArchives.isEmpty else { return }
        if unsealedArchives.contains(where: { $0.last == start && $0.hash == startHash }) { unexplained = nil }
        archives = (archives + unsealedArchives).suffix(Self.maximumArchives)
        unsealedArchives = []
    }

    /// Notes the key that signed a checkpoint, and an ``UnendorsedKey`` if the signer before does not endorse it.
    private mutating func noteSigner(_ keyId: AuditDigest) {
        if let signer, signer != keyId {
            if keys != nil, !endorsed.contains(keyId), !unendorsedKeys.contains(where: { $0.keyId == keyId }) {
                unendorsedKeys.append(UnendorsedKey(keyId: keyId, firstRecord: sealed + 1))
            }
            endorsed = []
        }
        signer = keyId
        signers.insert(keyId)
        endorsed.formUnion(unsealedAnnouncements)
        unsealedAnnouncements = []
    }

    /// Returns the keys that the records named as trusted since the last call. A checkpoint has just sealed these records.
    mutating func takeSealedPins() -> [(sequence: Int, pin: KeyPin)] {
        defer { unsealedPins = [] }
        return unsealedPins
    }

    // MARK: Heads and signatures

    /// Checks the signatures of the heads. The first wrong one becomes the chain's fault.
    mutating func checkHeads() { fault = Self.signatureFault(ofHeads: heads, keys) }

    static func signatureFault(ofHeads heads: [SignedCheckpoint], _ keys: CheckpointKeys?) -> ChainBreak? {
        heads.lazy.compactMap { head in
            signatureFault(of: head, keys, unvouched: nil).map {
                ChainBreak(line: nil, ChainPosition(head.checkpoint), fault: $0)
            }
        }.first
    }

    /// - Parameter unvouched: the first record that no checkpoint of the chain seals yet; nil if the chain is not known.
    private static func signatureFault(
        of signed: SignedCheckpoint, _ keys: CheckpointKeys?, unvouched: Int?
    ) -> ChainFault? {
        guard let keys else { return nil }
        guard let key = keys[signed.checkpoint.keyId] else { return .anotherKey(unvouched: unvouched) }
        return key.verifies(signed) ? nil : .wrongSignature
    }

    private func differsFromHead(_ sequence: Int, _ hash: AuditDigest) -> Bool {
        heads.contains { $0.checkpoint.sequence == sequence && $0.checkpoint.hash != hash }
    }

    // MARK: The end

    /// The fault of the chain after its last line: a fault of a line, a beginning without a reason, or a head outside
    /// the chain.
    var faultAtEnd: ChainBreak? {
        fault ?? unexplained ?? heads.lazy.compactMap { Self.fault(of: $0, in: self) }.first
    }

    /// Returns the fault if the chain does not contain the record that the head seals.
    static func fault(of head: SignedCheckpoint, in chain: NodeChain?) -> ChainBreak? {
        let (sequence, position) = (head.checkpoint.sequence, ChainPosition(head.checkpoint))
        guard let chain, let start = chain.start else { return ChainBreak(line: nil, position, fault: .headOfNoNode) }
        if chain.last < sequence { return ChainBreak(line: nil, position, fault: .endsBeforeHead(last: chain.last)) }
        return start > sequence ? ChainBreak(line: nil, position, fault: .beginsAfterHead(first: start + 1)) : nil
    }

    /// Returns the part of the chain that was read; nil if no line was.
    ///
    /// - Parameter isLive: true if the last line is the record's present end.
    func range(isLive: Bool) -> ChainRange? {
        start.map {
            ChainRange(
                node: node, start: $0, last: last, sealed: sealed, sealedAt: sealedAt, signers: signers,
                unendorsedKeys: unendorsedKeys, lateSeals: lateSeals, isLive: isLive,
                newestHead: heads.map(\.checkpoint).max { $0.sequence < $1.sequence })
        }
    }
}
