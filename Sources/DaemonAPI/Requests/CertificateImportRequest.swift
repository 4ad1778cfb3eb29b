/// The body of `POST /v1/certificates`: a certificate for a key that is in a token already.
public struct CertificateImportRequest: Codable, Sendable, Equatable {
    /// Base64 of the certificate's DER.
    public var certificate: String
    /// Takes an expired certificate too.
    public var allowExpired: Bool

    public init(certificate: String, allowExpired: Bool = false) {
        self.certificate = certificate
        self.allowExpired = allowExpired
    }
}
