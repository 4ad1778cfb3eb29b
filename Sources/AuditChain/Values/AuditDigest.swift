internal import Crypto
internal import Encodings

/// 32 bytes: a SHA-256 (FIPS 180-4), or an identifier that has the size of one, such as a transactionId.
public struct AuditDigest: Hashable, Sendable {
    public static let size = 32

    /// 32 zero bytes: what stands for the record before a chain's first.
    public static let zero = AuditDigest(exactly: [UInt8](repeating: 0, count: size))

    /// 32 bytes.
    public let bytes: [UInt8]

    /// Nil unless there are 32 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = Array(bytes)
    }

    /// Nil unless `text` is 64 lower-case hexadecimal digits, the only spelling in records.
    public init?(hex text: String) {
        self.init(hexDigits: Array(text.utf8)[...])
    }

    /// Nil unless `text` is base64 (RFC 4648 §4) of 32 bytes in its one spelling, with padding.
    public init?(base64 text: String) {
        guard let bytes = Base64.decode(text, padding: .required) else { return nil }
        self.init(bytes: bytes)
    }

    /// The SHA-256 of these bytes.
    public static func of(_ content: some Collection<UInt8>) -> AuditDigest {
        AuditDigest(exactly: Array(SHA256.hash(data: Array(content))))
    }

    /// A record's hash: SHA-256(`previous` ‖ `body`), `previous` as its 32 raw bytes.
    static func following(_ previous: AuditDigest, body: ArraySlice<UInt8>) -> AuditDigest {
        var hasher = SHA256()
        hasher.update(data: previous.bytes)
        hasher.update(data: body)
        return AuditDigest(exactly: Array(hasher.finalize()))
    }

    /// Nil unless these are 64 lower-case hexadecimal digits.
    init?(hexDigits: ArraySlice<UInt8>) {
        guard let bytes = Hexadecimal.decode(lowerCase: hexDigits), bytes.count == Self.size else { return nil }
        self.bytes = bytes
    }

    private init(exactly bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// 64 lower-case digits.
    public var hex: String { Hexadecimal.encode(bytes) }

    /// 44 characters, the spelling of a publicKeyHash.
    public var base64: String { Base64.encode(bytes) }
}
