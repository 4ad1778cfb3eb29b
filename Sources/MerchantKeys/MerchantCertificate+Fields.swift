import CryptoExtras
import Foundation
import PaymentToken
import SwiftASN1
import X509

extension MerchantCertificate {
    /// The exact bytes of SubjectPublicKeyInfo inside the certificate: the hash is over them as Apple encoded them.
    ///
    ///     TBSCertificate ::= SEQUENCE { version [0] EXPLICIT …, serialNumber, signature, issuer, validity, subject,
    ///                                   subjectPublicKeyInfo, … }                               (RFC 5280 §4.1)
    static func subjectPublicKeyInfo(in der: [UInt8]) throws -> [UInt8] {
        let root = try DER.parse(der)
        let toBeSigned = try DER.sequence(root, identifier: .sequence) { nodes -> ASN1Node? in
            let first = nodes.next()
            while nodes.next() != nil {}
            return first
        }
        guard let toBeSigned else { throw MerchantCertificateError.notACertificate }
        let fields = try DER.sequence(toBeSigned, identifier: .sequence) { nodes -> [ASN1Node] in
            var fields: [ASN1Node] = []
            while let node = nodes.next() { fields.append(node) }
            return fields
        }
        let hasVersion = fields.first?.identifier == ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific)
        let index = hasVersion ? 6 : 5
        guard fields.indices.contains(index) else { throw MerchantCertificateError.notACertificate }
        return Array(fields[index].encodedBytes)
    }

    static func userIdentifier(of certificate: Certificate) throws(MerchantCertificateError) -> String? {
        let values = certificate.subject.flatMap { Array($0) }.filter { $0.type == .userIdentifier }.map(\.value)
        guard let value = values.first else { return nil }
        guard values.count == 1, let text = String(value), MerchantIdentifier.isPossible(text)
        else { throw .merchantIdentifierUnreadable }
        return text
    }

    /// The value is a UTF8String of 64 hex characters, `0c 40 …`; Apple writes them in upper case.
    static func identifierHash(of certificate: Certificate) throws(MerchantCertificateError) -> [UInt8]? {
        guard let found = certificate.extensions[oid: .merchantIdentifierHash] else { return nil }
        guard let text = try? ASN1UTF8String(derEncoded: found.value), let bytes = Hexadecimal.decode(String(text)),
            bytes.count == 32
        else { throw .extensionUnreadable }
        return bytes
    }

    static func rsaModulusBits(_ certificate: Certificate) -> Int? {
        _RSA.Signing.PublicKey(certificate.publicKey)?.keySizeInBits
    }
}

extension ASN1ObjectIdentifier {
    /// `uid`, RFC 4519 §2.39.
    static let userIdentifier: ASN1ObjectIdentifier = [0, 9, 2342, 19_200_300, 100, 1, 1]
    /// Apple's extension with the SHA-256 of the merchant identifier.
    static let merchantIdentifierHash: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 32]
    /// Apple's marker on the certificates that sign payment tokens.
    static let paymentTokenSigner: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 29]
    /// Apple's markers on push certificates.
    static let pushDevelopment: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 1]
    static let pushProduction: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 2]
}
