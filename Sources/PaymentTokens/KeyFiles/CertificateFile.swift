internal import SwiftASN1

/// A merchant's certificate from a file: X.509 in PEM or DER, alone or among others in PEM or PKCS#7.
///
/// If the file has several certificates, the Payment Processing Certificate is chosen. Its issuer's signature is
/// checked if the issuer's certificate is in the same file. This type only distinguishes a merchant's certificate from
/// other files; the daemon checks that it belongs to the right merchant.
public struct CertificateFile: Sendable, Equatable {
    /// The certificate's DER, which swift-certificates can parse.
    public let der: [UInt8]
    /// One sentence for the user if the file has several certificates. It names the chosen one and its signer, and
    /// begins with the path.
    public let note: String?

    /// - Parameter path: A file of at most 64 KiB. A private key in the same file is ignored.
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
            throw file.refusal(insteadOf: .certificate)
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

/// PKCS#7 as a container for certificates: SignedData without a signer (RFC 5652 §5.1, RFC 8551 §3.2.1). Such files
/// are `.p7b`, `.p7c` and the output of `openssl crl2pkcs7`. Indefinite lengths are read, because streaming writers
/// use them.
enum PKCS7Bundle {
    enum Fault: Error, Equatable {
        /// The file is not exactly one well-formed ContentInfo.
        case malformed
        /// The content type is not SignedData, but for example encrypted data.
        case notSignedData
        /// The SignedData has signers: it is a signed message, which contains only its signers' certificates.
        case signed
        /// The file has more than ``maximumCount`` certificates.
        case tooMany
    }

    /// The largest number of certificates that a file may have. No real chain is as long.
    static let maximumCount = 32

    /// The encoded certificates in the file's order. Attribute certificates and revocation lists are skipped.
    ///
    ///     ContentInfo ::= SEQUENCE { contentType, content [0] EXPLICIT ANY }
    ///     SignedData ::= SEQUENCE { version, digestAlgorithms SET, encapContentInfo SEQUENCE,
    ///         certificates [0] IMPLICIT SET OPTIONAL, crls [1] IMPLICIT SET OPTIONAL, signerInfos SET }
    static func certificates(in bytes: [UInt8]) throws(Fault) -> [[UInt8]] {
        let parts = try signedData(in: bytes)
        guard parts.count >= 4, parts[0].identifier == .integer, parts[1].identifier == .set,
            parts[2].identifier == .sequence, let signers = parts.last, signers.identifier == .set
        else { throw .malformed }
        guard children(signers)?.isEmpty == true else { throw .signed }
        var certificates: [[UInt8]] = []
        for part in parts[3...] where part.identifier == .tagged(0) {
            for choice in children(part) ?? [] where choice.identifier == .sequence {
                guard certificates.count < maximumCount else { throw .tooMany }
                certificates.append(Array(choice.encodedBytes))
            }
        }
        return certificates
    }

    private static func signedData(in bytes: [UInt8]) throws(Fault) -> [ASN1Node] {
        guard let root = try? BER.parse(bytes), root.identifier == .sequence, let info = children(root),
            info.count == 2, let type = try? ASN1ObjectIdentifier(derEncoded: info[0]), info[1].identifier == .tagged(0)
        else { throw .malformed }
        guard type == .signedData else { throw .notSignedData }
        guard let content = children(info[1]), content.count == 1, content[0].identifier == .sequence,
            let parts = children(content[0])
        else { throw .malformed }
        return parts
    }

    private static func children(_ node: ASN1Node) -> [ASN1Node]? {
        guard case .constructed(let nodes) = node.content else { return nil }
        return Array(nodes)
    }
}

extension ASN1Identifier {
    fileprivate static func tagged(_ number: UInt) -> ASN1Identifier {
        ASN1Identifier(tagWithNumber: number, tagClass: .contextSpecific)
    }
}

extension ASN1ObjectIdentifier {
    /// SignedData, RFC 5652 §5.1.
    fileprivate static let signedData: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 7, 2]
}
