internal import Crypto
internal import Encodings

/// Which merchant key a payment token is encrypted to: SHA-256 of the SubjectPublicKeyInfo (RFC 5280 §4.1.2.7) in DER of the
/// merchant certificate's public key. 32 bytes; the CKA_ID of the key in the HSM.
public struct PublicKeyHash: Hashable, Sendable {
    public static let size = 32

    /// 32 bytes.
    public let bytes: [UInt8]

    /// Nil unless there are 32 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = Array(bytes)
    }

    /// Nil unless `text` is base64 of 32 bytes, with or without padding.
    public init?(base64 text: String) {
        guard let bytes = Base64.decode(text) else { return nil }
        self.init(bytes: bytes)
    }

    /// Nil unless `text` is 64 hexadecimal digits of either case.
    public init?(hex text: String) {
        guard let bytes = Hexadecimal.decode(text) else { return nil }
        self.init(bytes: bytes)
    }

    private init(digest: SHA256.Digest) {
        bytes = Array(digest)
    }

    /// The hash of a SubjectPublicKeyInfo in DER.
    public static func of(subjectPublicKeyInfo: some Collection<UInt8>) -> PublicKeyHash {
        PublicKeyHash(digest: SHA256.hash(data: Array(subjectPublicKeyInfo)))
    }

    /// 44 characters: the spelling in payment tokens and answers.
    public var base64: String { Base64.encode(bytes) }

    /// 64 lower-case digits: the spelling in paths and on the command line.
    public var hex: String { Hexadecimal.encode(bytes) }
}

/// The device's name for a transaction: 32 bytes, written in hexadecimal. A transaction is released once, ever.
public struct TransactionIdentifier: Hashable, Sendable {
    public static let size = 32

    /// 32 bytes.
    public let bytes: [UInt8]

    /// Nil unless there are 32 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = Array(bytes)
    }

    /// Nil unless `text` is 64 hexadecimal digits of either case.
    public init?(hex text: String) {
        guard let bytes = Hexadecimal.decode(text) else { return nil }
        self.init(bytes: bytes)
    }

    /// 64 lower-case digits.
    public var hex: String { Hexadecimal.encode(bytes) }
}
