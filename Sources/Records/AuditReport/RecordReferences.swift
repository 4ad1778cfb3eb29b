public import AuditChain

/// The node and sequence of one record.
public struct RecordPlace: Sendable, Hashable, Comparable {
    public let node: AuditNode
    public let sequence: Int

    init(_ entry: AuditEntry) { (node, sequence) = (entry.node, entry.sequence) }

    /// The node's name and the sequence, such as `node-1 4711`, by which a reader finds the record in an export.
    public var text: String { "\(node.name) \(sequence)" }

    public static func < (left: RecordPlace, right: RecordPlace) -> Bool {
        (left.node, left.sequence) < (right.node, right.sequence)
    }
}

/// The records that a figure counts.
///
/// The references to a million records take no more memory than those to ten. They contain the count and the first and
/// last record of each node, and the first few records individually. Together with the figure's condition, they suffice
/// to find all the records in the export.
public struct RecordReferences: Sendable, Equatable {
    public struct Part: Sendable, Equatable {
        public let node: AuditNode
        public internal(set) var count: Int
        public internal(set) var first: Int
        public internal(set) var last: Int
    }

    /// The parts, one for each node, in the order in which the export first names the nodes.
    public private(set) var parts: [Part] = []
    /// The first records that were added, at most ``maximumNamed``.
    public private(set) var beginning: [RecordPlace] = []

    private static let maximumNamed = 8

    public var count: Int { parts.reduce(0) { $0 + $1.count } }
    public var isEmpty: Bool { parts.isEmpty }

    public mutating func add(_ entry: AuditEntry) { add(RecordPlace(entry)) }

    public mutating func add(_ place: RecordPlace) {
        if beginning.count < Self.maximumNamed { beginning.append(place) }
        add(Part(node: place.node, count: 1, first: place.sequence, last: place.sequence))
    }

    public mutating func add(_ other: RecordReferences) {
        beginning += other.beginning.prefix(Self.maximumNamed - beginning.count)
        for part in other.parts { add(part) }
    }

    private mutating func add(_ part: Part) {
        // Search from the end: an export contains one node after the other, so the record usually belongs to the last
        // part.
        guard let index = parts.lastIndex(where: { $0.node == part.node }) else { return parts.append(part) }
        parts[index].count += part.count
        parts[index].first = min(parts[index].first, part.first)
        parts[index].last = max(parts[index].last, part.last)
    }
}
