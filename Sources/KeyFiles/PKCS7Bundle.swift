internal import SwiftASN1

/// PKCS#7 as a way to carry certificates: SignedData without a signer (RFC 5652 §5.1, RFC 8551 §3.2.1), what `.p7b`,
/// `.p7c` and `openssl crl2pkcs7` are. Indefinite lengths are read, as streaming writers make them.
enum PKCS7Bundle {
    enum Fault: Error, Equatable {
        /// Not one whole, well-formed ContentInfo.
        case malformed
        /// Encrypted, plain data and other content types.
        case notSignedData
        /// A signed message, which carries its signers' certificates and nobody else's.
        case signed
        /// More than ``maximumCount`` certificates.
        case tooMany
    }

    /// More than any chain has.
    static let maximumCount = 32

    /// The certificates' own bytes in the file's order; attribute certificates and revocation lists are left.
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
    /// RFC 5652 §5.1.
    fileprivate static let signedData: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 7, 2]
}
