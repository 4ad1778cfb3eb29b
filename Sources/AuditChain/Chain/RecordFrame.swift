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

    /// Nil unless the line begins with node, sequence and time and ends with the hash, all as records are written.
    init?(_ line: [UInt8]) {
        var scanner = LineScanner(line)
        guard line.count <= AuditLine.maximumBytes,
            scanner.take("{\"node\":\""), let node = scanner.node(), scanner.take("\",\"sequence\":"),
            let sequence = scanner.sequence(), scanner.take(",\"time\":\""),
            line.count - Self.tailLength >= scanner.position
        else { return nil }
        let end = line.count - Self.tailLength
        scanner.skip(to: end)
        guard scanner.take(",\"hash\":\""), let hash = scanner.digest(), scanner.take("\"}") else { return nil }
        self.node = node
        self.sequence = sequence
        self.body = line[..<end]
        self.hash = hash
    }
}
