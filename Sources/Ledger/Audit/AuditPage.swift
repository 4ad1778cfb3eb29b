public import AuditChain

/// In which order records are read.
public enum AuditOrder: Sendable, Equatable {
    case oldestFirst
    case newestFirst
}

/// A stored record.
public struct StoredRecord: Sendable, Equatable {
    /// By which it is found; the line has its own, and a verifier goes by that.
    public let sequence: Int
    public let hash: AuditDigest
    /// The line without its line feed, as it was written.
    public let line: [UInt8]
}

/// Some records, in their order.
public struct AuditPage: Sendable, Equatable {
    public let records: [StoredRecord]
    /// The cursor of the next page; nil when there is no more.
    public let next: Int?
}

/// A line of an export without its line feed.
public enum StoredLine: Sendable, Equatable {
    case record(sequence: Int, [UInt8])
    case checkpoint(sequence: Int, [UInt8])

    public var sequence: Int {
        switch self {
        case .record(let sequence, _), .checkpoint(let sequence, _): sequence
        }
    }

    public var bytes: [UInt8] {
        switch self {
        case .record(_, let bytes), .checkpoint(_, let bytes): bytes
        }
    }
}

extension [StoredLine] {
    /// The lines as an export has them, with a line feed after each.
    public var exported: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(reduce(0) { $0 + $1.bytes.count + 1 })
        for line in self {
            bytes.append(contentsOf: line.bytes)
            bytes.append(UInt8(ascii: "\n"))
        }
        return bytes
    }
}
