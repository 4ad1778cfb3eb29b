/// A node's name: whose chain a record belongs to. 1 to 64 ASCII letters, digits, dots, hyphens and underscores.
public struct AuditNode: Hashable, Sendable, Comparable {
    public static let maximumLength = 64

    public let name: String

    /// Nil when `name` is empty, too long or has other characters.
    public init?(_ name: String) {
        guard (1...Self.maximumLength).contains(name.utf8.count), name.utf8.allSatisfy(Self.allows) else { return nil }
        self.name = name
    }

    /// For the scanner, which has counted and checked the characters.
    init(scanned characters: ArraySlice<UInt8>) {
        name = String(decoding: characters, as: UTF8.self)
    }

    static func allows(_ character: UInt8) -> Bool {
        switch character {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"): true
        default: false
        }
    }

    /// By their bytes.
    public static func < (left: AuditNode, right: AuditNode) -> Bool {
        left.name.utf8.lexicographicallyPrecedes(right.name.utf8)
    }
}
