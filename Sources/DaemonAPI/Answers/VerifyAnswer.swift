public import Foundation

/// The 200 answer of `POST /v1/verify`.
public struct VerifyAnswer: Codable, Sendable, Equatable {
    /// `EC_v1` or `RSA_v1`.
    public var version: String
    /// 64 hex characters, lower case.
    public var transactionId: String
    /// Base64 of 32 bytes.
    public var publicKeyHash: String
    /// The CMS signingTime attribute (RFC 5652 §11.3).
    public var signingTime: Date
    /// Leaf, intermediate, root.
    public var chain: [CertificateSummary]

    public init(
        version: String, transactionId: String, publicKeyHash: String, signingTime: Date, chain: [CertificateSummary]
    ) {
        self.version = version
        self.transactionId = transactionId
        self.publicKeyHash = publicKeyHash
        self.signingTime = signingTime
        self.chain = chain
    }
}

/// What a person needs of one certificate.
public struct CertificateSummary: Codable, Sendable, Equatable {
    /// RFC 4514.
    public var subject: String
    public var issuer: String
    /// Hex, lower case.
    public var serialNumber: String
    public var notBefore: Date
    public var notAfter: Date
    /// SHA-256 of the DER, 64 hex characters, lower case: what `trust.distrusted` takes.
    public var sha256: String

    public init(
        subject: String, issuer: String, serialNumber: String, notBefore: Date, notAfter: Date, sha256: String
    ) {
        self.subject = subject
        self.issuer = issuer
        self.serialNumber = serialNumber
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.sha256 = sha256
    }
}
