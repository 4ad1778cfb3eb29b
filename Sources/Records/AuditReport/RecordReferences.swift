public import AuditChain

/// One record's place.
public struct RecordPlace: Sendable, Hashable, Comparable {
    public let node: AuditNode
    public let sequence: Int

    public init(node: AuditNode, sequence: Int) {
        self.node = node
        self.sequence = sequence
    }

    init(_ entry: AuditEntry) { self.init(node: entry.node, sequence: entry.sequence) }

    /// `node-1 4711`, by which the record is found in an export.
    public var text: String { "\(node.name) \(sequence)" }

    public static func < (left: RecordPlace, right: RecordPlace) -> Bool {
        (left.node, left.sequence) < (right.node, right.sequence)
    }
}

/// Which records a figure counts.
///
/// A figure of a million names their number, the first and the last of each node, and the first few one by one: with the figure's
/// condition that is enough to find all of them in the export.
public struct RecordReferences: Sendable, Equatable {
    public struct Part: Sendable, Equatable {
        public let node: AuditNode
        public internal(set) var count: Int
        public internal(set) var first: Int
        public internal(set) var last: Int
    }

    /// As a rule one a node, in the order in which they came.
    public private(set) var parts: [Part] = []
    /// The first ones.
    public private(set) var beginning: [RecordPlace] = []

    private static let mostNamed = 8

    public init() {}

    public var count: Int { parts.reduce(0) { $0 + $1.count } }
    public var isEmpty: Bool { parts.isEmpty }

    public mutating func add(_ entry: AuditEntry) { add(RecordPlace(entry)) }

    public mutating func add(_ place: RecordPlace) {
        if beginning.count < Self.mostNamed { beginning.append(place) }
        // Exports give one node after the other, so it is the last one but at their ends.
        if let index = parts.lastIndex(where: { $0.node == place.node }) {
            parts[index].count += 1
            parts[index].first = min(parts[index].first, place.sequence)
            parts[index].last = max(parts[index].last, place.sequence)
        } else {
            parts.append(Part(node: place.node, count: 1, first: place.sequence, last: place.sequence))
        }
    }

    public mutating func add(_ other: RecordReferences) {
        for place in other.beginning where beginning.count < Self.mostNamed { beginning.append(place) }
        for part in other.parts {
            if let index = parts.firstIndex(where: { $0.node == part.node }) {
                parts[index].count += part.count
                parts[index].first = min(parts[index].first, part.first)
                parts[index].last = max(parts[index].last, part.last)
            } else {
                parts.append(part)
            }
        }
    }
}
