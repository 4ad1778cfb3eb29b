public import AuditChain

/// The node and sequence of one record.
public struct RecordPlace: Sendable, Hashable, Comparable {
    public let node: AuditNode
    public let sequence: Int

    init(_ entry: AuditEntry) { self.init(entry.node, entry.sequence) }

    init(_ node: AuditNode, _ sequence: Int) { (self.node, self.sequence) = (node, sequence) }

    /// The node's name and the sequence, such as `node-1 4711`, by which a reader finds the record in an export.
    public var text: String { "\(node.name) \(sequence)" }

    public static func < (left: RecordPlace, right: RecordPlace) -> Bool {
        (left.node, left.sequence) < (right.node, right.sequence)
    }
}

/// The time and the place of one record.
struct RecordMoment: Sendable, Hashable, Comparable {
    let time: AuditTime
    let place: RecordPlace

    static func < (left: RecordMoment, right: RecordMoment) -> Bool {
        (left.time, left.place) < (right.time, right.place)
    }
}

/// The records that a figure counts.
///
/// Memory use does not grow with the number of records: only the first few are kept individually, and for each node the
/// count and the first and last sequence. With these and the figure's condition, a reader finds all the records in the
/// export.
public struct RecordReferences: Sendable, Equatable {
    public struct Part: Sendable, Equatable {
        public let node: AuditNode
        public internal(set) var count: Int
        public internal(set) var first: Int
        public internal(set) var last: Int
    }

    /// The parts, one for each node, in the order in which the nodes' first records were added.
    public private(set) var parts: [Part] = []
    /// The first records that were added, at most ``maximumNamed``.
    public private(set) var beginning: [RecordPlace] = []

    private static let maximumNamed = 8

    public var count: Int { parts.reduce(0) { $0 + $1.count } }
    public var isEmpty: Bool { parts.isEmpty }
    /// The node of all records; nil if there are records of several nodes.
    var onlyNode: AuditNode? { parts.count == 1 ? parts[0].node : nil }

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
