/// The algorithms with which a TLS client's RSA key signs. Both hash with SHA-256.
///
/// The raw values are the names in RFC 8446 §4.2.3. They are part of the public API: the `algorithm` of a request for a
/// signature.
public enum TLSSignatureAlgorithm: String, Sendable, Equatable, CaseIterable {
    /// RSASSA-PSS with MGF1-SHA256 and a salt of 32 bytes (RFC 8017 §8.1). TLS 1.3 accepts only this from an RSA key.
    case pssSHA256 = "rsa_pss_rsae_sha256"
    /// RSASSA-PKCS1-v1_5 (RFC 8017 §8.2), in TLS 1.2 only.
    case pkcs1SHA256 = "rsa_pkcs1_sha256"

    /// The algorithm's number as a TLS `SignatureScheme` (RFC 8446 §4.2.3).
    public var codePoint: UInt16 {
        switch self {
        case .pssSHA256: 0x0804
        case .pkcs1SHA256: 0x0401
        }
    }

    public init?(codePoint: UInt16) {
        guard let known = Self.allCases.first(where: { $0.codePoint == codePoint }) else { return nil }
        self = known
    }
}
