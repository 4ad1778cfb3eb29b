/// Gives on a stream's lines only when they are whole, so that what is ended at any moment ends with a line.
struct WholeLines {
    /// A line that is longer than any is not waited for: 1 MiB.
    private static let maximumWait = 1 << 20

    /// The beginning of a line whose line feed has not come yet.
    private var rest: [UInt8] = []
    /// How the last whole line begins: enough to know a checkpoint by.
    private var lastBeginning: [UInt8] = []

    private static let checkpoint = Array("{\"checkpoint\":".utf8)

    var isSealed: Bool { lastBeginning == Self.checkpoint }

    /// What has come and is not given on.
    var remainder: [UInt8] { rest }

    /// The whole lines that there are with the next bytes.
    mutating func take(_ piece: [UInt8]) -> [UInt8] {
        guard let end = piece.lastIndex(of: 0x0A) else {
            rest += piece
            guard rest.count > Self.maximumWait else { return [] }
            defer { rest = [] }
            return rest
        }
        let lines = rest + piece[...end]
        rest = Array(piece[(end + 1)...])
        let before = lines.dropLast().lastIndex(of: 0x0A).map { $0 + 1 } ?? 0
        lastBeginning = Array(lines[before...].prefix(Self.checkpoint.count))
        return lines
    }
}
