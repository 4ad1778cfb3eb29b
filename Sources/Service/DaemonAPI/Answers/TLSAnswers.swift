public import Foundation

/// One active identity of a merchant, as `GET /v1/tls-identities` lists it: the certificate that a TLS client presents. The
/// certificate's key, in an HSM token, signs the handshake. The list begins with the newest identity.
public struct TLSIdentity: Codable, Sendable, Equatable {
    /// Base64 of 32 bytes. A client sends it as ``TLSSignatureRequest/publicKeyHash``.
    public var publicKeyHash: String
    /// The certificates, each as base64 of its DER, beginning with the merchant's own. Apple's intermediate certificate is
    /// not among them, since Apple's servers have it.
    public var certificateChain: [String]
    /// The notAfter of the merchant's certificate.
    public var notAfter: Date
    /// The key's signature algorithms, in order of preference: `rsa_pss_rsae_sha256`, `rsa_pkcs1_sha256`. TLS 1.3 accepts
    /// the first only. Empty while no HSM token with the key is available.
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
    /// Base64 of the 256-byte RSA signature.
    public var signature: String
    /// The signature's audit record.
    public var audit: AuditReference

    public init(signature: String, audit: AuditReference) {
        self.signature = signature
        self.audit = audit
    }
}
