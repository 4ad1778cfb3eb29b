public import Foundation

/// One of a merchant's identities, as `GET /v1/tls-identities` lists it: the certificate that a TLS client presents,
/// and whose key then signs the handshake. Only active identities are listed, the newest first.
public struct TLSIdentity: Codable, Sendable, Equatable {
    /// Base64 of 32 bytes, for the member of that name in ``TLSSignatureRequest``.
    public var publicKeyHash: String
    /// Base64 of DER, the merchant's own certificate first. Apple's intermediate certificate is not included, since Apple has
    /// it.
    public var certificateChain: [String]
    /// The notAfter of the merchant's certificate.
    public var notAfter: Date
    /// The key's signature algorithms, in order of preference: `rsa_pss_rsae_sha256`, `rsa_pkcs1_sha256`. TLS 1.3 needs the
    /// first.
    public var algorithms: [String]

    public init(publicKeyHash: String, certificateChain: [String], notAfter: Date, algorithms: [String]) {
        self.publicKeyHash = publicKeyHash
        self.certificateChain = certificateChain
        self.notAfter = notAfter
        self.algorithms = algorithms
    }
}

/// The 200 answer of `POST /v1/tls-signatures`.
public struct TLSSignatureAnswer: Codable, Sendable, Equatable {
    /// Base64 of 256 bytes.
    public var signature: String
    /// The signature's audit record.
    public var audit: AuditReference

    public init(signature: String, audit: AuditReference) {
        self.signature = signature
        self.audit = audit
    }
}
