/// The result of verifying an export, or the ledger's own lines.
public enum ChainVerdict: Sendable, Equatable, CustomStringConvertible {
    /// Every chain is complete from the start of its range and ends in a signed checkpoint. Nothing is proved about
    /// records before that start.
    case intact([ChainRange])
    /// No fault was found, but the export has no line, or at least one chain has records after its last checkpoint.
    case unsealed([ChainRange])
    /// The export is a selection that may have gaps; it begins with ``FilteredExport/firstLine(_:node:through:)``.
    /// `records` is the number of its records. Nothing proves that they are unchanged or complete.
    case filtered(records: Int)
    case broken(ChainBreak)

    public var isIntact: Bool { if case .intact = self { true } else { false } }

    /// The exit status of a verification:
    /// - 0: every chain is intact, and its end is known to be the record's end.
    /// - 2: no fault was found, but the end of a chain is unknown, or a chain has records after its last checkpoint.
    /// - 1: a fault was found, a chain has no checkpoint, or the export is a selection, which proves nothing.
    public var exitStatus: Int32 {
        switch self {
        case .intact(let ranges): ranges.allSatisfy(\.endIsKnown) ? 0 : 2
        case .unsealed(let ranges): !ranges.isEmpty && ranges.allSatisfy { $0.sealedAt != nil } ? 2 : 1
        case .filtered, .broken: 1
        }
    }

    /// One line for each node, sorted by name, or one line for a fault. `scripts/verify-audit` prints the same text.
    public var description: String {
        switch self {
        case .broken(let fault): fault.description
        case .filtered(let records):
            "filtered: \(records == 1 ? "1 record" : "\(records) records") chosen by conditions; that none was changed, "
                + "added or left out only an export without conditions can show"
        case .intact(let ranges), .unsealed(let ranges):
            ranges.isEmpty
                ? "unsealed: the export is empty" : ranges.map(\.description).joined(separator: "\n")
        }
    }
}

/// The part of one node's chain that an export contains.
public struct ChainRange: Sendable, Equatable, CustomStringConvertible {
    public let node: AuditNode
    /// The sequence before the first record: 0, or that of the signed checkpoint at the beginning of the export.
    public let start: Int
    /// The last record's sequence; ``start`` if the export has no record of the chain.
    public let last: Int
    /// The sequence of the last checkpoint; `start` if there is none.
    public let sealed: Int
    /// The time of the last checkpoint; nil if there is none.
    public let sealedAt: AuditTime?
    /// The keyIds of the keys that signed the chain's checkpoints.
    public let signers: Set<AuditDigest>
    /// The keys among ``signers`` that the signer before does not endorse in the export, in order.
    public let unendorsedKeys: [UnendorsedKey]
    /// The checkpoints that came later than the schedule requires.
    public let lateSeals: LateSeals
    /// True if a daemon returned the records, so that their end is the record's present end.
    let isLive: Bool
    /// The newest of the checkpoints that were stored elsewhere; nil if there is none of this node.
    let newestHead: Checkpoint?

    /// True if the record's end is known: a daemon returned the records, or the newest checkpoint that was stored elsewhere is at
    /// most a day older than the last checkpoint. Otherwise later records may have been removed.
    public var endIsKnown: Bool { isLive || newestHead != nil && (timeAfterHead ?? 0) <= Self.longestAfterHead }

    /// Heads are stored daily.
    private static let longestAfterHead: Int64 = 86_400_000

    /// The milliseconds from ``newestHead`` to the last checkpoint; nil if no record follows this head.
    private var timeAfterHead: Int64? {
        guard let newestHead, let sealedAt, last > newestHead.sequence else { return nil }
        return max(0, sealedAt.milliseconds - newestHead.time.milliseconds)
    }

    /// The number of the chain's records that the export contains.
    public var records: Int { last - start }
    /// The number of records after the last checkpoint.
    public var unsealed: Int { last - sealed }

    /// The range for messages, such as `records 1 to 5000`.
    var extent: String { records > 0 ? "records \(start + 1) to \(last)" : "no record after \(start)" }

    /// True if a checkpoint seals the last record.
    public var isSealed: Bool { unsealed == 0 && sealedAt != nil }

    /// One line: ``summary``, and a sentence for each of ``unendorsedKeys``.
    public var description: String { summary + unendorsedSentences }

    /// The extent and the seal, such as `intact: node a, records 1 to 5000, sealed at 2026-01-31T12:00:00.000Z`.
    var summary: String {
        guard unsealed == 0, let sealedAt else {
            return "unsealed: node \(node.name), \(extent), \(unsealed) after record \(sealed) not sealed"
        }
        return "intact: node \(node.name), \(extent), sealed at \(sealedAt.text)"
    }

    var unendorsedSentences: String {
        unendorsedKeys.map { key in
            "; nothing here shows that the key before vouches for the key \(key.keyId.hex), which seals from record "
                + "\(key.firstRecord) on"
        }.joined()
    }
}

/// A key that seals a chain after another one, which has sealed no announcement of this key
/// (``AuditEvent/auditKeyPrepare(from:to:)``). Either a lost audit key was replaced, or the announcement is not in the
/// export, or an attacker has the key. The export does not show which.
public struct UnendorsedKey: Sendable, Equatable {
    public let keyId: AuditDigest
    /// The sequence of the first record that this key seals.
    public let firstRecord: Int
}

/// The checkpoints of a chain that came late, by the times of the host's clock. They are no fault: an HSM token may have
/// been away. If an attacker deletes a checkpoint, the next one comes late too.
public struct LateSeals: Sendable, Equatable {
    /// Records from `first` to `last` that were sealed together, with the times of the first one and of the checkpoint.
    public struct Interval: Sendable, Equatable {
        public let first: Int
        public let last: Int
        public let from: AuditTime
        public let to: AuditTime

        fileprivate var milliseconds: Int64 { to.milliseconds - from.milliseconds }
    }

    /// The time after which a checkpoint is late: twice the age at which it is due (``CheckpointSchedule``), since the
    /// HSM token needs time to sign.
    public static let limit = CheckpointSchedule.maximumAge * 2
    static let maximumNamed = 5

    public private(set) var count = 0
    /// The longest intervals, at most ``maximumNamed``, the longest first.
    public private(set) var longest: [Interval] = []

    mutating func add(first: Int, from: AuditTime, last: Int, to: AuditTime) {
        let interval = Interval(first: first, last: last, from: from, to: to)
        guard Duration.milliseconds(interval.milliseconds) > Self.limit else { return }
        count += 1
        let place = longest.firstIndex { $0.milliseconds < interval.milliseconds } ?? longest.count
        longest.insert(interval, at: place)
        longest = Array(longest.prefix(Self.maximumNamed))
    }

}

extension ChainRange {
    /// A line about the records after ``newestHead``, a line for each of the longest times of ``lateSeals``, and one with the
    /// number of the others. `scripts/verify-audit` prints the same text.
    public var remarks: [String] {
        let named = lateSeals.longest.map { interval in
            "late: node \(node.name), records \(interval.first) to \(interval.last) were not sealed from "
                + "\(interval.from.text) to \(interval.to.text), \(Self.text(interval.milliseconds))"
        }
        let others = lateSeals.count - lateSeals.longest.count
        return [remarkOnHead].compactMap(\.self) + named
            + (others > 0 ? ["late: node \(node.name), \(others) shorter times"] : [])
    }

    private var remarkOnHead: String? {
        guard !isLive, let newestHead, let timeAfterHead else { return nil }
        return "head: node \(node.name), records \(newestHead.sequence + 1) to \(last) are in no given head, "
            + "\(Self.text(timeAfterHead)) from the newest to the last seal"
    }

    /// A time such as `23:05:00` or `2 d 0:01:00`.
    private static func text(_ milliseconds: Int64) -> String {
        let seconds = milliseconds / 1000
        return (seconds < 86_400 ? "" : "\(seconds / 86_400) d ") + "\(seconds / 3600 % 24)"
            + [seconds / 60 % 60, seconds % 60].map { $0 < 10 ? ":0\($0)" : ":\($0)" }.joined()
    }
}

/// A fault of a line or a chain. `scripts/verify-audit` prints the same sentences.
public enum ChainFault: Error, Sendable, Equatable {
    /// The last line has no line feed.
    case incompleteLine
    case lineTooLong
    /// The line is neither a record nor a checkpoint. `lastGood` is the position of the last record or checkpoint
    /// before the line. The verifier parses only those parts of a record that the chain needs.
    case malformed(lastGood: ChainPosition?)
    case tooManyNodes
    /// The node's first line is a record other than record 1.
    case noBeginning
    /// Records `from` to `to` are missing before this line.
    case missing(from: Int, to: Int)
    /// The line's sequence should have come earlier: the node's last record so far is `after`.
    case outOfOrder(after: Int)
    /// The record's hash is not SHA-256(previous ‖ body).
    case changed
    /// The checkpoint's keyId does not belong to any of the given keys. `unvouched` is the first record that no given key
    /// seals; nil if the chain is not known.
    case anotherKey(unvouched: Int?)
    case wrongSignature
    /// The checkpoint's hash differs from the hash of the record that the checkpoint should seal. `sealedBefore` is
    /// the sequence of the chain's previous checkpoint.
    case sealsAnother(sealedBefore: Int)
    /// The record that the head seals has a different hash than the head. The head is a checkpoint that the auditor
    /// stored elsewhere.
    case differsFromHead
    case endsBeforeHead(last: Int)
    case beginsAfterHead(first: Int)
    case headOfNoNode
    /// The line belongs to another node than the one whose lines the export should contain.
    case ofAnotherNode(than: AuditNode)
    /// The export has no line of a node that the auditor required.
    case noLines
    /// A record of another node names a key of this node as trusted, but no earlier trusted key endorses the key.
    /// `node` and `sequence` identify that record.
    case unendorsedPin(node: AuditNode, sequence: Int)
}

/// A record or a checkpoint, by its node and sequence.
public struct ChainPosition: Sendable, Equatable, CustomStringConvertible {
    public enum Kind: String, Sendable {
        case record
        case checkpoint
    }

    public let node: AuditNode
    public let kind: Kind
    public let sequence: Int

    public var description: String { "node \(node.name), \(kind.rawValue) \(sequence)" }
}

/// The first fault that a verification finds, with its position.
public struct ChainBreak: Error, Sendable, Equatable, CustomStringConvertible {
    /// The line's number in the export, from 1; nil if the fault is in a head that the auditor supplied.
    public let line: Int?
    /// The record or checkpoint with the fault; nil if the line is malformed.
    public let position: ChainPosition?
    public let fault: ChainFault

    init(line: Int?, _ position: ChainPosition? = nil, fault: ChainFault) {
        self.line = line
        self.position = position
        self.fault = fault
    }

    /// One line: `broken: line 18, node a, record 18: …`.
    public var description: String { "broken: \(place): \(sentence)" }

    /// The fault without a line number, for a ledger whose lines have none: `node a, record 18: …`.
    public var finding: String { "\(position?.description ?? "a line after the last good one"): \(sentence)" }

    /// The place of the fault, such as `line 18, node a, record 18`.
    public var place: String {
        switch fault {
        case .noLines, .unendorsedPin: "node \(position?.node.name ?? "")"
        default:
            [line.map { "line \($0)" } ?? "head", position?.description].compactMap(\.self).joined(separator: ", ")
        }
    }

    private var sequence: Int { position?.sequence ?? 0 }

    private var sentence: String {
        switch fault {
        case .incompleteLine: "not ended by a line feed: the export was cut off here"
        case .lineTooLong: "longer than \(AuditLine.maximumBytes) bytes"
        case .malformed(let lastGood):
            "neither a record nor a checkpoint; "
                + (lastGood.map { "the last good line is \($0)" } ?? "no good line precedes it")
        case .tooManyNodes: "more than \(ChainVerifier.maximumNodes) nodes"
        case .noBeginning: "no signed checkpoint of record \(sequence - 1) precedes it"
        case .missing(let from, let to):
            from == to ? "record \(from) is missing before it" : "records \(from) to \(to) are missing before it"
        case .outOfOrder(let last): "comes after record \(last): repeated, inserted or out of order"
        case .changed where sequence == 1: "its hash does not follow from the chain's beginning: it was changed"
        case .changed: "its hash does not follow from record \(sequence - 1): one of the two was changed"
        case .anotherKey(let unvouched):
            "not signed by a given key" + (unvouched.map { ": no given key vouches from record \($0) on" } ?? "")
        case .wrongSignature: "its signature is wrong"
        case .sealsAnother(let sealed):
            "seals another record \(sequence): one after \(sealed) was changed and the hashes recomputed"
        case .differsFromHead: "not the record that the head seals: the ledger was rolled back or rewritten"
        case .endsBeforeHead(let last):
            "the export ends at record \(last): it was cut off or the ledger rolled back"
        case .beginsAfterHead(let first):
            "the export begins later, at record \(first): compare with one from before"
        case .headOfNoNode: "the export has no line of this node"
        case .ofAnotherNode(let node): "is among the lines of node \(node.name)"
        case .noLines: "there is no line of it"
        case .unendorsedPin(let node, let sequence):
            "record \(sequence) of node \(node.name) pins another key for it, which no key pinned before vouches for"
        }
    }
}
