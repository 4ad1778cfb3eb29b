import TestSupport

/// Random values from a seed, with edge values among them.
struct RandomValues {
    private var generator: SeededGenerator

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    mutating func number(_ range: ClosedRange<Int64>) -> Int64 { Int64.random(in: range, using: &generator) }
    mutating func count(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
    mutating func isTrue(percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

    mutating func any<Element>(of elements: [Element]) -> Element { elements[count(0...elements.count - 1)] }
    mutating func subset<Element>(of elements: [Element], percent: Int) -> [Element] {
        elements.filter { _ in isTrue(percent: percent) }
    }

    /// Bytes, among them all zeros and all ones.
    mutating func bytes(_ count: Int) -> [UInt8] {
        switch self.count(0...19) {
        case 0: [UInt8](repeating: 0, count: count)
        case 1: [UInt8](repeating: 0xff, count: count)
        default: unique(count)
        }
    }

    /// Bytes that occur only once.
    mutating func unique(_ count: Int) -> [UInt8] { (0..<count).map { _ in .random(in: 0...255, using: &generator) } }

    /// NULL, or bytes.
    mutating func bytesIfAny(_ count: Int) -> Cell { isTrue(percent: 50) ? .bytes(bytes(count)) : .null }

    /// A number that is not negative, among them the ends of 32 and 64 bits.
    mutating func limit() -> Int64 {
        any(of: [0, 1, Int64(Int32.max), Int64(UInt32.max), Int64(UInt32.max) + 1, 1 << 53 + 1, .max - 1, .max])
    }

    private static let odd = [
        "'", "''", "\"", "\\", "\\x00", "%", "_", ";--", "$1", "é", "e\u{301}", "ß", "İ", "ﬁ",
        "\u{7f}", "\u{a0}", "\u{200d}", "\u{202e}", "\u{feff}", "\u{fffd}", "\u{1f468}\u{200d}\u{1f469}", "\u{10fffd}",
        "\t", "\r\n", " ",
    ]

    /// A text of at most this number of characters, among them the empty, the longest, and texts with unusual
    /// characters. It has no NUL, which PostgreSQL cannot store.
    mutating func text(longest: Int, canBeEmpty: Bool = true) -> String {
        switch count(0...9) {
        case 0 where canBeEmpty: return ""
        case 1: return String(repeating: any(of: ["x", "é", "\u{1f600}", "\u{4e2d}"]), count: longest)
        case 2...5:
            let parts = (0..<count(1...6)).map { _ in any(of: Self.odd) }
            return String(parts.joined().prefix(longest))
        default: return "name-\(number(0...9999))"
        }
    }
}
