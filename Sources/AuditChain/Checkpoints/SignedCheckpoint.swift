internal import Encodings

/// A checkpoint as it is stored and exported: a line of its own.
///
///     {"checkpoint":{"node":…,"sequence":…,"hash":…,"time":…,"keyId":…},"signature":"<base64 of DER>"}
public struct SignedCheckpoint: Sendable, Equatable {
    public let checkpoint: Checkpoint
    public let signature: CheckpointSignature

    init(checkpoint: Checkpoint, signature: CheckpointSignature) {
        self.checkpoint = checkpoint
        self.signature = signature
    }

    /// The line without the line feed, UTF-8.
    public var line: [UInt8] {
        var line = Array("{\"checkpoint\":".utf8)
        line.append(contentsOf: checkpoint.signedBytes)
        line.append(contentsOf: ",\"signature\":\"".utf8)
        line.append(contentsOf: Base64.encode(signature.der).utf8)
        line.append(contentsOf: "\"}".utf8)
        return line
    }

    /// Reads a line, with no other spelling than ``line`` has: what is signed is then what is read. The signature is
    /// not verified.
    public init?(line: [UInt8]) {
        var scanner = LineScanner(line)
        guard scanner.take("{\"checkpoint\":{\"node\":\""), let node = scanner.node(),
            scanner.take("\",\"sequence\":"), let sequence = scanner.sequence(),
            scanner.take(",\"hash\":\""), let hash = scanner.digest(),
            scanner.take("\",\"time\":\""), let time = AuditTime(stored: scanner.untilQuotationMark()),
            scanner.take("\",\"keyId\":\""), let keyId = scanner.digest(),
            scanner.take("\"},\"signature\":\""),
            let der = Base64.decode(scanner.untilQuotationMark(), padding: .required),
            let signature = CheckpointSignature(der: der), scanner.take("\"}"), scanner.isAtEnd
        else { return nil }
        checkpoint = Checkpoint(node: node, sequence: sequence, hash: hash, time: time, keyId: keyId)
        self.signature = signature
    }

    /// Reads a file of checkpoints that somebody kept, one a line; the last may lack its line feed.
    ///
    /// Nil when there is none, more than 1,024, or anything else between.
    public static func list(parsing file: [UInt8]) -> [SignedCheckpoint]? {
        var lines = file.split(separator: 0x0A, omittingEmptySubsequences: false)
        if lines.last?.isEmpty == true { lines.removeLast() }
        guard (1...ChainVerifier.maximumNodes).contains(lines.count) else { return nil }
        let checkpoints = lines.compactMap { SignedCheckpoint(line: Array($0)) }
        return checkpoints.count == lines.count ? checkpoints : nil
    }
}
