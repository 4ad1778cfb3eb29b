/// Reads a line's fixed parts from left to right. What it does not find, it leaves where it is.
struct LineScanner {
    let line: [UInt8]
    private(set) var position = 0

    init(_ line: [UInt8]) {
        self.line = line
    }

    var isAtEnd: Bool { position == line.count }

    mutating func take(_ literal: StaticString) -> Bool {
        take(Array(literal.description.utf8))
    }

    mutating func take(_ bytes: [UInt8]) -> Bool {
        guard bytes.count <= line.count - position, line[position..<position + bytes.count] == bytes[...] else {
            return false
        }
        position += bytes.count
        return true
    }

    /// Goes on at `position`, which is not past the end.
    mutating func skip(to position: Int) {
        self.position = position
    }

    /// A number of exactly `count` decimal digits.
    mutating func digits(_ count: Int) -> Int? {
        guard count <= line.count - position else { return nil }
        var value = 0
        for character in line[position..<position + count] {
            guard Self.isDigit(character) else { return nil }
            value = value * 10 + Int(character - UInt8(ascii: "0"))
        }
        position += count
        return value
    }

    /// A sequence number: 1 to 18 digits, not beginning with 0.
    mutating func sequence() -> Int? {
        let end = end(of: Self.isDigit)
        guard (1...18).contains(end - position), line[position] != UInt8(ascii: "0") else { return nil }
        return digits(end - position)
    }

    mutating func node() -> AuditNode? {
        let end = end(of: AuditNode.allows)
        guard (1...AuditNode.maximumLength).contains(end - position) else { return nil }
        defer { position = end }
        return AuditNode(scanned: line[position..<end])
    }

    /// 64 lower-case hexadecimal digits.
    mutating func digest() -> AuditDigest? {
        let end = position + AuditDigest.size * 2
        guard end <= line.count, let digest = AuditDigest(hexDigits: line[position..<end]) else { return nil }
        position = end
        return digest
    }

    /// What stands before the next quotation mark.
    mutating func untilQuotationMark() -> String {
        let end = end(of: { $0 != UInt8(ascii: "\"") })
        defer { position = end }
        return String(decoding: line[position..<end], as: UTF8.self)
    }

    private func end(of belongs: (UInt8) -> Bool) -> Int {
        var end = position
        while end < line.count, belongs(line[end]) { end += 1 }
        return end
    }

    private static func isDigit(_ character: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(character)
    }
}
