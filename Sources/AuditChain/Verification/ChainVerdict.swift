/// What a verification found.
public enum ChainVerdict: Sendable, Equatable, CustomStringConvertible {
    /// Every chain is whole and ends in a signed checkpoint. The range says where each begins: an export that begins
    /// after a signed checkpoint says nothing about the records before.
    case intact([ChainRange])
    /// Nothing is wrong as far as checkpoints reach, but a chain goes on behind its last one, or there is no line.
    case unsealed([ChainRange])
    /// A selection: it begins with a ``FilteredExport/firstLine(_:node:through:)``, and has gaps. So many records can be
    /// read, and nothing says that they are as they were written, or all that there were.
    case filtered(records: Int)
    case broken(ChainBreak)

    /// 0 for intact, else 1: of a selection nothing is proved.
    public var exitStatus: Int32 {
        if case .intact = self { 0 } else { 1 }
    }

    /// One line a node, by their names, or one for what is broken; the same as `scripts/verify-audit` prints.
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

/// The part of one node's chain that an export holds.
public struct ChainRange: Sendable, Equatable, CustomStringConvertible {
    public let node: AuditNode
    /// The sequence before the first record: 0, or that of the signed checkpoint with which the export begins.
    public let start: Int
    /// The last record's sequence.
    public let last: Int
    /// The sequence of the last checkpoint; `start` when there is none behind it.
    public let sealed: Int
    /// When the last checkpoint was made; nil when there is none at all.
    public let sealedAt: AuditTime?

    /// How many records there are.
    public var records: Int { last - start }
    /// How many of them stand behind the last checkpoint.
    public var unsealed: Int { last - sealed }

    /// `intact: node a, records 1 to 5000, sealed at 2026-01-31T12:00:00.000Z`
    public var description: String {
        let extent = records > 0 ? "records \(start + 1) to \(last)" : "no record after \(start)"
        guard unsealed == 0, let sealedAt else {
            return "unsealed: node \(node.name), \(extent), \(unsealed) after record \(sealed) not sealed"
        }
        return "intact: node \(node.name), \(extent), sealed at \(sealedAt.text)"
    }
}
