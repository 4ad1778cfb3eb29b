/// The 200 answer of `POST /v1/keys?dry_run=true`: nothing was made. Without the dry run the answer is a ``KeySummary``.
public struct KeyGenerationDryRun: Codable, Sendable, Equatable {
    public var merchantIdentifier: String
    /// `EC` or `RSA`.
    public var algorithm: String
    /// The token that the key would be made in.
    public var token: String

    public init(merchantIdentifier: String, algorithm: String, token: String) {
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.token = token
    }
}

/// The 200 answer of `POST /v1/keys/{key}/csr`.
public struct CertificateRequestAnswer: Codable, Sendable, Equatable {
    /// Base64 of 32 bytes.
    public var publicKeyHash: String
    public var merchantIdentifier: String?
    /// `EC` or `RSA`.
    public var algorithm: String
    /// PKCS#10 (RFC 2986) in PEM, as Apple's developer portal takes it; null in a dry run, which signs nothing.
    public var csr: String?

    public init(publicKeyHash: String, merchantIdentifier: String?, algorithm: String, csr: String?) {
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.csr = csr
    }

    private enum CodingKeys: String, CodingKey {
        case publicKeyHash, merchantIdentifier, algorithm, csr
    }

    // Written out because the synthesised form leaves absent members out.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(publicKeyHash, forKey: .publicKeyHash)
        try container.encode(merchantIdentifier, forKey: .merchantIdentifier)
        try container.encode(algorithm, forKey: .algorithm)
        try container.encode(csr, forKey: .csr)
    }
}
