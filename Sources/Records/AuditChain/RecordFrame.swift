/// The parts of a record's line that the chain needs: node, sequence, the hashed bytes, and the hash.
///
/// The hash covers the other members, which are not parsed. A verifier therefore needs no JSON parser and can read
/// records of newer versions as well.
struct RecordFrame {
    let node: AuditNode
    let sequence: Int
    /// The line's bytes before `,"hash":`.
    let body: ArraySlice<UInt8>
    let hash: AuditDigest
    private let timeStart: Int
    /// The index in the line at which the time ends.
    private let timeEnd: Int

    /// The length of `,"hash":"`, 64 digits and `"}`.
    private static let tailLength = 75

    private static let beforeHash = Array(",\"hash\":\"".utf8)
    private static let afterHash = Array("\"}".utf8)

    /// Returns nil unless the line begins with node, sequence and time and ends with the hash, in the exact form of
    /// records.
    init?(_ line: [UInt8]) {
        var scanner = LineScanner(line)
        guard line.count <= AuditLine.maximumBytes, let (node, sequence) = scanner.recordStart(),
            line.count - Self.tailLength >= scanner.position
        else { return nil }
        timeStart = scanner.position
        let end = line.count - Self.tailLength
        scanner.skip(to: end)
        guard scanner.take(Self.beforeHash), let hash = scanner.digest(), scanner.take(Self.afterHash) else {
            return nil
        }
        self.node = node
        self.sequence = sequence
        timeEnd = min(timeStart + AuditTime.length, end)
        self.body = line[..<end]
        self.hash = hash
    }

    /// The record's time; nil if it does not have the form of records. The chain does not need it.
    var time: AuditTime? { AuditTime(stored: String(decoding: body[timeStart..<timeEnd], as: UTF8.self)) }

    /// The text after a line's time that identifies an event. A reader creates it once and compares all lines with it.
    struct EventMark {
        fileprivate let bytes: [UInt8]

        init(_ name: AuditEvent.Name) { bytes = Array("\",\"event\":\"\(name.rawValue)\"".utf8) }
    }

    /// Returns true if the line is a record of the mark's event.
    func isEvent(_ mark: EventMark) -> Bool { body[timeEnd...].starts(with: mark.bytes) }
}

/// The beginning of a record's line, which is read without the rest.
public struct RecordStart: Sendable {
    public let node: AuditNode
    public let sequence: Int
    public let time: AuditTime

    /// Returns nil for a line that is not a record's.
    public init?(_ line: [UInt8]) {
        var scanner = LineScanner(line)
        guard let (node, sequence) = scanner.recordStart(), let time = AuditTime(stored: scanner.untilQuotationMark())
        else { return nil }
        (self.node, self.sequence, self.time) = (node, sequence, time)
    }
}

/// Scans a line's parts from left to right. If the requested part does not come next, the position stays unchanged.
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

    /// Moves to `position`, which must not be after the line's end.
    mutating func skip(to position: Int) {
        self.position = position
    }

    /// Reads a number of exactly `count` decimal digits; nil if the line does not continue with so many digits.
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

    // Create these arrays once, not for each of a chain's millions of lines.
    private static let beforeNode = Array("{\"node\":\"".utf8)
    private static let beforeSequence = Array("\",\"sequence\":".utf8)
    private static let beforeTime = Array(",\"time\":\"".utf8)

    /// Reads the beginning of a record's line, up to the time.
    mutating func recordStart() -> (node: AuditNode, sequence: Int)? {
        guard take(Self.beforeNode), let node = node(), take(Self.beforeSequence), let sequence = sequence(),
            take(Self.beforeTime)
        else { return nil }
        return (node, sequence)
    }

    /// Reads a sequence number: 1 to 18 digits, the first of which is not 0.
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

    /// Reads 64 lower-case hexadecimal digits.
    mutating func digest() -> AuditDigest? {
        let end = position + AuditDigest.size * 2
        guard end <= line.count, let digest = AuditDigest(hexDigits: line[position..<end]) else { return nil }
        position = end
        return digest
    }

    /// Reads the characters before the next quotation mark.
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

extension AuditEvent.Name {
    /// Returns true if the line is a record of this event, after parsing only the parts that the chain needs.
    public func isEvent(ofRecord line: [UInt8]) -> Bool {
        RecordFrame(line)?.isEvent(RecordFrame.EventMark(self)) ?? false
    }
}
