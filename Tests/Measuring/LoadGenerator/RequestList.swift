/// Requests in the order of sending, in one array of bytes.
struct RequestList {
    let bytes: [UInt8]
    private let ranges: [Range<Int>]

    var count: Int { ranges.count }

    /// The range of request `number` in ``bytes``.
    subscript(number: Int) -> Range<Int> { ranges[number] }

    /// Reads prepared requests.
    ///
    /// - Parameter bytes: the requests, each preceded by its length in 4 big-endian bytes.
    init(_ bytes: [UInt8]) throws(LoadFailure) {
        self.bytes = bytes
        var ranges: [Range<Int>] = []
        var place = 0
        while place < bytes.count {
            let start = place + 4
            guard start <= bytes.count else { throw LoadFailure("the requests end within a length") }
            let length = bytes[place..<start].reduce(0) { $0 << 8 | Int($1) }
            guard length > 0, length <= bytes.count - start else {
                throw LoadFailure(
                    "request \(ranges.count) is said to have \(length) bytes; there are not as many, or none")
            }
            ranges.append(start..<start + length)
            place = start + length
        }
        self.ranges = ranges
    }
}
