/// A merchant's certificate from a file: X.509 in PEM or DER, alone or among others in PEM or PKCS#7.
///
/// Of several certificates the Payment Processing Certificate is taken, and its issuer's signature is checked when the
/// issuer's certificate is in the same file. Whether it is the right merchant's certificate is checked by the daemon;
/// here it is only told from everything else that people have in such files.
public struct CertificateFile: Sendable, Equatable {
    /// The certificate's DER, one that swift-certificates reads.
    public let der: [UInt8]
    /// Which certificate was taken, and who signed it, where the file holds several: one sentence for a person,
    /// beginning with the path.
    public let note: String?

    /// - Parameter path: At most 64 KiB. A private key in the same file does not disturb.
    public init(path: String) throws(KeyFileError) {
        let file = try RecognisedFile(path: path, secret: false)
        let contents = file.contents
        var certificates: [[UInt8]] = []
        for (content, block) in contents {
            switch content {
            case .certificate: certificates.append(try Self.bytes(of: block, in: file))
            case .pkcs7: certificates += try Self.certificates(inBundle: Self.bytes(of: block, in: file), path: path)
            default: continue
            }
        }
        guard !certificates.isEmpty else {
            if contents.contains(where: { $0.content == .pkcs7 }) {
                throw KeyFileError(.unsuitable, path: path, "is a PKCS#7 bundle without a certificate in it.")
            }
            // What else the file holds; parameters only when there is nothing but them.
            let found = contents.first { $0.content != .parameters } ?? contents.first
            throw (found?.content ?? .unknown).insteadOfCertificate(path: path, inPEM: file.isPEM)
        }
        self.init(try CertificateChoice(among: certificates, of: path), path: path)
    }

    init(_ choice: CertificateChoice, path: String) {
        der = choice.chosen.der
        note = choice.note.map { "\(path): \($0)" }
    }

    private static func bytes(
        of block: PEMBlock?, in file: borrowing RecognisedFile
    ) throws(KeyFileError) -> [UInt8] {
        try file.der(of: block).withSpan { span in span.indices.map { span[$0] } }
    }

    private static func certificates(inBundle bytes: [UInt8], path: String) throws(KeyFileError) -> [[UInt8]] {
        do throws(PKCS7Bundle.Fault) {
            return try PKCS7Bundle.certificates(in: bytes)
        } catch {
            throw KeyFileError(.unsuitable, path: path, error.sentence)
        }
    }
}

extension PKCS7Bundle.Fault {
    fileprivate var sentence: String {
        switch self {
        case .malformed: "begins like a PKCS#7 bundle, but is not a whole and well-formed one. Download it again."
        case .notSignedData: "is PKCS#7, but of a kind that carries no certificates."
        case .signed: "is a signed PKCS#7 message, not a bundle of certificates."
        case .tooMany:
            "holds more than \(PKCS7Bundle.maximumCount) certificates. Leave the merchant's chain only."
        }
    }
}
