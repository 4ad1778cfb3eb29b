/// Reads answers from a connection. Of each answer it returns only the status, when the answer is complete.
struct AnswerReader {
    /// The part of an incomplete head that has arrived. Between heads the array is empty but keeps its memory.
    private var head: [UInt8] = []
    private var status = 0
    /// The number of bytes of the body that are missing; nil before the head is complete.
    private var missing: Int?

    init() { head.reserveCapacity(1024) }

    /// Reads the next bytes of an answer.
    ///
    /// - Parameter bytes: a buffer whose first `count` bytes are input. They belong to one answer at most, because
    ///   only one request is under way.
    /// - Returns: the status if the answer is complete; otherwise nil.
    mutating func take(_ bytes: [UInt8], count: Int) throws(LoadFailure) -> Int? {
        var body = count
        if missing == nil {
            let known: AnswerHead?
            if head.isEmpty {
                known = try AnswerHead(bytes, count: count)
                if let known { body = count - known.byteCount }
            } else {
                let before = head.count
                head.append(contentsOf: bytes[..<count])
                known = try AnswerHead(head, count: head.count)
                if let known { body = before + count - known.byteCount }
            }
            guard let known else {
                if head.isEmpty { head.append(contentsOf: bytes[..<count]) }
                return nil
            }
            head.removeAll(keepingCapacity: true)
            (status, missing) = (known.status, known.contentLength)
        }
        let rest = (missing ?? 0) - body
        guard rest >= 0 else { throw LoadFailure("an answer is longer than its Content-Length") }
        missing = rest == 0 ? nil : rest
        return rest == 0 ? status : nil
    }
}

/// The head of an answer (RFC 9112 §4 and §6.2).
struct AnswerHead: Equatable {
    let status: Int
    /// The length of the body, in bytes.
    let contentLength: Int
    /// The length of the head in bytes, including the empty line at its end.
    let byteCount: Int

    /// Parses the head of an answer, of which the first `count` bytes have arrived.
    ///
    /// - Returns: nil while the head is incomplete.
    init?(_ bytes: [UInt8], count: Int) throws(LoadFailure) {
        var (status, length, start) = (0, Int?.none, 0)
        var end = 1
        while end < count {
            guard bytes[end] == UInt8(ascii: "\n"), bytes[end - 1] == UInt8(ascii: "\r") else {
                end += 1
                continue
            }
            if end - 1 == start {
                guard let length, status > 0 else { throw LoadFailure("an answer has no Content-Length") }
                (self.status, contentLength, byteCount) = (status, length, end + 1)
                return
            }
            if start == 0 {
                status = try Self.status(bytes, end - 1)
            } else if let value = Self.contentLength(bytes, start, end - 1) {
                length = value
            }
            start = end + 1
            end += 2
        }
        return nil
    }

    private static let version = Array("HTTP/1.1 ".utf8)
    private static let field = Array("content-length:".utf8)

    private static func status(_ bytes: [UInt8], _ end: Int) throws(LoadFailure) -> Int {
        guard end >= version.count + 3, matches(bytes, 0, version),
            let status = number(bytes, version.count, version.count + 3)
        else { throw LoadFailure("an answer does not begin with HTTP/1.1 and a status") }
        return status
    }

    /// Reads the length from a line that is a Content-Length field.
    ///
    /// - Returns: the length; nil if the line is another field.
    private static func contentLength(_ bytes: [UInt8], _ start: Int, _ end: Int) -> Int? {
        guard end - start > field.count, matches(bytes, start, field) else { return nil }
        var place = start + field.count
        while place < end, bytes[place] == UInt8(ascii: " ") { place += 1 }
        return number(bytes, place, end)
    }

    /// Returns true if the bytes at `start` equal `wanted`, except for the case of letters.
    private static func matches(_ bytes: [UInt8], _ start: Int, _ wanted: [UInt8]) -> Bool {
        for index in wanted.indices {
            let byte = bytes[start + index]
            guard byte == wanted[index] || byte | 0x20 == wanted[index] else { return false }
        }
        return true
    }

    private static func number(_ bytes: [UInt8], _ start: Int, _ end: Int) -> Int? {
        guard start < end, end - start < 10 else { return nil }
        var value = 0
        for place in start..<end {
            guard bytes[place] >= UInt8(ascii: "0"), bytes[place] <= UInt8(ascii: "9") else { return nil }
            value = value * 10 + Int(bytes[place] - UInt8(ascii: "0"))
        }
        return value
    }
}
