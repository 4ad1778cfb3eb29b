/// What is wrong with a line or a chain. The sentences are the same as those of `scripts/verify-audit`.
public enum ChainFault: Sendable, Equatable {
    /// The last line has no line feed.
    case incompleteLine
    case lineTooLong
    /// Neither a record nor a checkpoint, as far as the chain needs to read them.
    case malformed(lastGood: ChainPosition?)
    case tooManyNodes
    /// The node's first line is a record other than 1.
    case noBeginning
    /// Records `from` to `to` should stand before it.
    case missing(from: Int, to: Int)
    /// It should stand before the node's last record so far.
    case outOfOrder(after: Int)
    /// The record's hash is not SHA-256(previous ‖ body).
    case changed
    /// The checkpoint's keyId is no given key's.
    case anotherKey
    case wrongSignature
    /// The checkpoint is signed, but for another record of this sequence.
    case sealsAnother(sealedBefore: Int)
    /// The record of a head's sequence has another hash.
    case differsFromHead
    case endsBeforeHead(last: Int)
    case beginsAfterHead(first: Int)
    case headOfNoNode
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

/// The first thing that is wrong, and where.
public struct ChainBreak: Error, Sendable, Equatable, CustomStringConvertible {
    /// The line's number in the export, from 1; nil for a head that was given beside it.
    public let line: Int?
    /// nil where the line could not be read.
    public let position: ChainPosition?
    public let fault: ChainFault

    init(line: Int?, _ position: ChainPosition? = nil, fault: ChainFault) {
        self.line = line
        self.position = position
        self.fault = fault
    }

    /// One line: `broken: line 18, node a, record 18: …`.
    public var description: String {
        let place = [line.map { "line \($0)" } ?? "head", position?.description].compactMap(\.self)
        return "broken: \(place.joined(separator: ", ")): \(sentence)"
    }

    private var sequence: Int { position?.sequence ?? 0 }

    private var sentence: String {
        switch fault {
        case .incompleteLine:
            return "not ended by a line feed: the export was cut off here"
        case .lineTooLong:
            return "longer than \(AuditLine.maximumBytes) bytes"
        case .malformed(let lastGood):
            let before = lastGood.map { "the last good line is \($0)" } ?? "no good line stands before it"
            return "neither a record nor a checkpoint; \(before)"
        case .tooManyNodes:
            return "more than \(ChainVerifier.maximumNodes) nodes"
        case .noBeginning:
            return "no signed checkpoint of record \(sequence - 1) stands before it"
        case .missing(let from, let to):
            return from == to ? "record \(from) is missing before it" : "records \(from) to \(to) are missing before it"
        case .outOfOrder(let last):
            return "stands after record \(last): repeated, inserted or out of order"
        case .changed:
            return sequence == 1
                ? "its hash does not follow from the chain's beginning: it was changed"
                : "its hash does not follow from record \(sequence - 1): one of the two was changed"
        case .anotherKey:
            return "not signed by a given key"
        case .wrongSignature:
            return "its signature is wrong"
        case .sealsAnother(let sealed):
            return "seals another record \(sequence): one after \(sealed) was changed and the hashes made anew"
        case .differsFromHead:
            return "not the record that the head seals: the ledger was rolled back or rewritten"
        case .endsBeforeHead(let last):
            return "the export ends at record \(last): it was cut off or the ledger rolled back"
        case .beginsAfterHead(let first):
            return "the export begins later, at record \(first): compare with one from before"
        case .headOfNoNode:
            return "the export has no line of this node"
        }
    }
}
