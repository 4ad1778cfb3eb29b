internal import SecretMemory
internal import X509

/// A certificate from a file, in PEM or DER.
///
/// Whether it is the right one is the daemon's judgement: here it is only told from everything else that people have
/// in files beside it.
public struct CertificateFile: Sendable, Equatable {
    /// The certificate's DER, one that swift-certificates reads.
    public let der: [UInt8]

    /// - Parameter path: At most 64 KiB. A private key in the same file does not disturb.
    public init(path: String) throws(KeyFileError) {
        let file = try RecognisedFile(path: path, secret: false)
        let contents = file.contents
        let certificates = contents.filter { $0.content == .certificate }
        guard certificates.count <= 1 else {
            throw KeyFileError(
                .unsuitable, path: path,
                "holds \(certificates.count) certificates. Leave the merchant's only; Apple's own are not needed.")
        }
        guard let certificate = certificates.first else {
            // What else the file holds; parameters only when there is nothing but them.
            let found = contents.first { $0.content != .parameters } ?? contents.first
            throw (found?.content ?? .unknown).insteadOfCertificate(path: path, inPEM: file.isPEM)
        }
        let der = try file.der(of: certificate.block).withSpan { span in span.indices.map { span[$0] } }
        guard (try? Certificate(derEncoded: der)) != nil else {
            throw KeyFileError(
                .unsuitable, path: path,
                "begins like a certificate, but is not a whole and well-formed one. Download it again.")
        }
        self.der = der
    }
}
