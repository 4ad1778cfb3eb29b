public import Refusals

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

    /// Reads the body strictly. Base64 is left to those who use the bytes.
    ///
    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["certificate", "allowExpired"])
        certificate = try body.requiredString("certificate")
        allowExpired = try body.bool("allowExpired") ?? false
    }
}
