internal import Crypto
internal import Encodings
internal import Foundation
public import KeyTypes
internal import StrictJSON

/// When a daemon makes the next checkpoint: as soon as ``maximumRecords`` are unsealed, or the oldest unsealed record is
/// of ``maximumAge``. An idle chain needs no checkpoint.
public enum CheckpointSchedule {
    public static let maximumRecords = 1000
    public static let maximumAge = Duration.seconds(60)
}

/// The signed statement that a node's chain had this hash at this sequence.
public struct Checkpoint: Sendable, Equatable {
    public let node: AuditNode
    /// The sequence of the last record that this checkpoint seals. It seals all earlier records as well.
    public let sequence: Int
    /// The hash of the record with this sequence.
    public let hash: AuditDigest
    /// The time at which the checkpoint was made.
    public let time: AuditTime
    /// The identifier of the key that signs the checkpoint: SHA-256 of the public key's SubjectPublicKeyInfo in DER.
    public let keyId: AuditDigest
    /// The algorithm of the signature. It is part of the signed bytes.
    public let algorithm: AuditSignatureAlgorithm

    init(
        node: AuditNode, sequence: Int, hash: AuditDigest, time: AuditTime, keyId: AuditDigest,
        algorithm: AuditSignatureAlgorithm = .ecdsaP256
    ) {
        self.node = node
        self.sequence = sequence
        self.hash = hash
        self.time = time
        self.keyId = keyId
        self.algorithm = algorithm
    }

    /// The bytes that are signed: the value of the member `checkpoint`, exactly as in the line. ECDSA on P-256 is not
    /// named, so that audit checkpoints have the same form as in earlier versions.
    public var signedBytes: [UInt8] {
        JSONWriter.object(capacity: 320) { json in
            json.member("node", node.name)
            json.member("sequence", sequence)
            json.member("hash", hash.hex)
            json.member("time", time.text)
            json.member("keyId", keyId.hex)
            if algorithm != .ecdsaP256 { json.member("algorithm", algorithm.rawValue) }
        }
    }

    /// Returns the checkpoint with the signature that `sign` makes.
    ///
    /// - Parameter sign: returns a signature of its argument by ``algorithm``.
    public func signed<Failure: Error>(
        by sign: (_ message: [UInt8]) async throws(Failure) -> CheckpointSignature
    ) async throws(Failure) -> SignedCheckpoint {
        SignedCheckpoint(checkpoint: self, signature: try await sign(signedBytes))
    }
}

extension ChainHead {
    /// Returns an unsigned checkpoint of the chain's last record; nil before the first record.
    public func checkpoint(
        at time: AuditTime, keyId: AuditDigest, algorithm: AuditSignatureAlgorithm = .ecdsaP256
    ) -> Checkpoint? {
        guard sequence > 0 else { return nil }
        return Checkpoint(
            node: node, sequence: sequence, hash: hash, time: time, keyId: keyId, algorithm: algorithm)
    }
}

/// A checkpoint as it is stored and exported, on its own line.
///
///     {"checkpoint":{"node":…,"sequence":…,"hash":…,"time":…,"keyId":…},"signature":"<base64>"}
///
/// If an RSA key signs, `keyId` is followed by `"algorithm":"rsa_pss_rsae_sha256"` or `"algorithm":"rsa_pkcs1_sha256"`.
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
        line.append(contentsOf: Base64.encode(signature.bytes).utf8)
        line.append(contentsOf: "\"}".utf8)
        return line
    }

    /// Parses a line. It must be byte for byte as ``line`` writes it, so that ``Checkpoint/signedBytes`` are the bytes
    /// that were signed. The signature is not verified.
    public init?(line: [UInt8]) {
        var scanner = LineScanner(line)
        guard scanner.take("{\"checkpoint\":{\"node\":\""), let node = scanner.node(),
            scanner.take("\",\"sequence\":"), let sequence = scanner.sequence(),
            scanner.take(",\"hash\":\""), let hash = scanner.digest(),
            scanner.take("\",\"time\":\""), let time = AuditTime(stored: scanner.untilQuotationMark()),
            scanner.take("\",\"keyId\":\""), let keyId = scanner.digest(),
            scanner.take("\""), let algorithm = scanner.algorithm(),
            scanner.take("},\"signature\":\""),
            let bytes = Base64.decode(scanner.untilQuotationMark(), padding: .required),
            let signature = CheckpointSignature(bytes, by: algorithm), scanner.take("\"}"), scanner.isAtEnd
        else { return nil }
        checkpoint = Checkpoint(
            node: node, sequence: sequence, hash: hash, time: time, keyId: keyId, algorithm: algorithm)
        self.signature = signature
    }

    /// Parses a file of stored checkpoints, one on each line. The line feed of the last line may be missing.
    ///
    /// Returns nil if the file has no checkpoint, has more than 1,024, or has a line that is not a checkpoint.
    public static func list(parsing file: [UInt8]) -> [SignedCheckpoint]? {
        var lines = file.split(separator: 0x0A, omittingEmptySubsequences: false)
        if lines.last?.isEmpty == true { lines.removeLast() }
        guard (1...ChainVerifier.maximumNodes).contains(lines.count) else { return nil }
        let checkpoints = lines.compactMap { SignedCheckpoint(line: Array($0)) }
        return checkpoints.count == lines.count ? checkpoints : nil
    }
}

/// An audit checkpoint's signature, as the line contains it in base64.
public struct CheckpointSignature: Sendable, Equatable {
    /// ECDSA: DER (RFC 3279 §2.2.3), 8 to 72 bytes. RSA: 256 bytes, as long as the modulus.
    public let bytes: [UInt8]

    /// Takes the result of PKCS#11's C_Sign with CKM_ECDSA (PKCS#11 v3.0 §2.3.1): r ‖ s, 32 bytes each. Returns nil for
    /// any other size.
    public init?(rawRepresentation: [UInt8]) {
        guard rawRepresentation.count == 64,
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: rawRepresentation)
        else { return nil }
        bytes = Array(signature.derRepresentation)
    }

    /// Takes a signature without parsing it; a malformed one is refused when it is verified. Returns nil if no signature
    /// by this algorithm has this size.
    public init?(_ bytes: [UInt8], by algorithm: AuditSignatureAlgorithm) {
        switch algorithm {
        case .ecdsaP256: guard (8...72).contains(bytes.count) else { return nil }
        case .rsaPSS, .rsaPKCS1: guard bytes.count == SubjectPublicKeyInfo.rsaModulusBits / 8 else { return nil }
        }
        self.bytes = bytes
    }

    /// Takes an ECDSA signature in DER, as ``init(_:by:)`` does.
    public init?(der: [UInt8]) { self.init(der, by: .ecdsaP256) }
}

extension LineScanner {
    /// Takes the member `algorithm`, if there is one. Returns nil for a name that ``Checkpoint/signedBytes`` never
    /// writes.
    fileprivate mutating func algorithm() -> AuditSignatureAlgorithm? {
        guard take(",\"algorithm\":\"") else { return .ecdsaP256 }
        guard let named = AuditSignatureAlgorithm(rawValue: untilQuotationMark()), named != .ecdsaP256, take("\"")
        else { return nil }
        return named
    }
}
