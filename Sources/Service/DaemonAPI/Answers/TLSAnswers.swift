public import Foundation

/// One of a merchant's identities, as `GET /v1/tls-identities` lists it: the certificate that a TLS client shows before
/// its key signs. Active ones only, the newest first.
public struct TLSIdentity: Codable, Sendable, Equatable {
    /// Base64 of 32 bytes; names the key in ``TLSSignatureRequest``.
    public var publicKeyHash: String
    /// Base64 of DER, the merchant's own certificate first. Apple's intermediate is not in it: Apple has it.
    public var certificateChain: [String]
    /// The merchant certificate's end.
    public var notAfter: Date
    /// What the key signs with, in the order of preference: `rsa_pss_rsae_sha256`, `rsa_pkcs1_sha256`. Without the first
    /// there is no TLS 1.3.
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
    /// Where the signature is recorded.
    public var audit: AuditReference

    public init(signature: String, audit: AuditReference) {
        self.signature = signature
        self.audit = audit
    }
}
