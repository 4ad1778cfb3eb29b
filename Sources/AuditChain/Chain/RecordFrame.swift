/// What the chain needs of a record's line: whose it is, where it stands, what is hashed, and the hash.
///
/// Nothing between is read: the hash covers it. So a verifier needs no JSON parser and understands records of newer
/// versions too.
struct RecordFrame {
    let node: AuditNode
    let sequence: Int
    /// The line's bytes before `,"hash":`.
    let body: ArraySlice<UInt8>
    let hash: AuditDigest

    /// `,"hash":"` 64 digits `"}`
    private static let tailLength = 75

    // Made once: a chain has millions of lines.
    private static let beforeNode = Array("{\"node\":\"".utf8)
    private static let beforeSequence = Array("\",\"sequence\":".utf8)
    private static let beforeTime = Array(",\"time\":\"".utf8)
    private static let beforeHash = Array(",\"hash\":\"".utf8)
    private static let afterHash = Array("\"}".utf8)

    /// Nil unless the line begins with node, sequence and time and ends with the hash, all as records are written.
    init?(_ line: [UInt8]) {
        var scanner = LineScanner(line)
        guard line.count <= AuditLine.maximumBytes,
            scanner.take(Self.beforeNode), let node = scanner.node(), scanner.take(Self.beforeSequence),
            let sequence = scanner.sequence(), scanner.take(Self.beforeTime),
            line.count - Self.tailLength >= scanner.position
        else { return nil }
        let end = line.count - Self.tailLength
        scanner.skip(to: end)
        guard scanner.take(Self.beforeHash), let hash = scanner.digest(), scanner.take(Self.afterHash) else {
            return nil
        }
        self.node = node
        self.sequence = sequence
        self.body = line[..<end]
        self.hash = hash
    }
}
