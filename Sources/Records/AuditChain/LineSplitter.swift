/// Cuts an export, which comes in pieces of any size, into lines.
public struct LineSplitter: Sendable {
    public init() {}

    /// The beginning of a line whose line feed has not come yet.
    private var pending: [UInt8] = []

    /// Whether the last line lacks its line feed.
    public var holdsPart: Bool { !pending.isEmpty }
    var retainedBytes: Int { pending.capacity }

    /// Gives the lines that are whole now, without their line feeds, until `body` wants no more.
    ///
    /// - Returns: false when a line is longer than any is.
    public mutating func take(_ bytes: ArraySlice<UInt8>, _ body: (_ line: [UInt8]) -> Bool) -> Bool {
        var rest = bytes
        while let lineFeed = rest.firstIndex(of: 0x0A) {
            let line: [UInt8]
            if pending.isEmpty {
                line = Array(rest[..<lineFeed])
            } else {
                pending.append(contentsOf: rest[..<lineFeed])
                line = pending
                pending.removeAll(keepingCapacity: true)
            }
            guard body(line) else { return true }
            rest = rest[(lineFeed + 1)...]
        }
        guard pending.count + rest.count <= AuditLine.maximumBytes else { return false }
        pending.append(contentsOf: rest)
        return true
    }
}
