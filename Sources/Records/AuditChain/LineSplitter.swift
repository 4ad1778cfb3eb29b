/// Splits an export, which arrives in pieces of any size, into lines.
public struct LineSplitter: Sendable {
    public init() {}

    /// The beginning of a line whose line feed has not arrived yet.
    private var pending: [UInt8] = []

    /// True while the last line has no line feed yet.
    public var endsInIncompleteLine: Bool { !pending.isEmpty }
    /// True once an incomplete line is longer than any record. From then on, incomplete lines are not kept, so the
    /// memory stays bounded.
    public private(set) var isOverlong = false
    var retainedBytes: Int { pending.capacity }

    /// Takes the next bytes, and returns the lines that are now complete, without their line feeds.
    public mutating func take(_ bytes: ArraySlice<UInt8>) -> [[UInt8]] {
        var parts = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
        let rest = parts.removeLast()
        var lines = parts.map { Array($0) }
        if !lines.isEmpty {
            lines[0] = pending + lines[0]
            pending.removeAll(keepingCapacity: true)
        }
        isOverlong = isOverlong || pending.count + rest.count > AuditLine.maximumBytes
        if !isOverlong { pending.append(contentsOf: rest) }
        return lines
    }
}
