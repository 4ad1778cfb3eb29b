import Crypto
public import Foundation
public import PaymentToken
import SwiftASN1
public import WorkerProtocol
import X509

/// A certificate that Apple issued to a merchant, read as far as a merchant key needs it.
///
/// Nothing here verifies Apple's signature on it: the certificate comes from an administrator, its key must be the
/// private key's, and its merchant is believed from the ledger only.
public struct MerchantCertificate: Sendable, Equatable {
    /// The bytes as they were given.
    public let der: [UInt8]
    /// SHA-256 of the whole certificate, 32 bytes.
    public let sha256: [UInt8]
    /// SHA-256 of its SubjectPublicKeyInfo: what Apple's tokens call publicKeyHash.
    public let publicKeyHash: PublicKeyHash
    public let algorithm: KeyAlgorithm
    /// The subject's UID attribute (RFC 4519 §2.39), in clear: `merchant.com.example`. Nil when there is none.
    public let merchantIdentifier: String?
    /// SHA-256 of the merchant identifier from Apple's extension 1.2.840.113635.100.6.32, 32 bytes; nil when there is
    /// none.
    public let merchantIdentifierHash: [UInt8]?
    public let purpose: CertificatePurpose
    /// RFC 4514, for people.
    public let subject: String
    public let issuer: String
    /// Hex, lower case.
    public let serialNumber: String
    public let notBefore: Date
    public let notAfter: Date

    /// Reads X.509 in DER (RFC 5280 §4.1).
    ///
    /// A certificate of another kind is read all the same, so that it can be said what it is.
    public init(der: [UInt8]) throws(MerchantCertificateError) {
        let certificate: Certificate
        let subjectPublicKeyInfo: [UInt8]
        do {
            subjectPublicKeyInfo = try Self.subjectPublicKeyInfo(in: der)
            certificate = try Certificate(derEncoded: der)
        } catch {
            throw .notACertificate
        }
        self.der = der
        sha256 = Array(SHA256.hash(data: der))
        publicKeyHash = PublicKeyHash.of(subjectPublicKeyInfo: subjectPublicKeyInfo)
        purpose = CertificatePurpose(of: certificate)
        subject = certificate.subject.description
        issuer = certificate.issuer.description
        serialNumber = Hexadecimal.encode(certificate.serialNumber.bytes)
        notBefore = certificate.notValidBefore
        notAfter = certificate.notValidAfter
        if P256.Signing.PublicKey(certificate.publicKey) != nil {
            algorithm = .ec
        } else if let bits = Self.rsaModulusBits(certificate), bits == 2048 {
            algorithm = .rsa
        } else {
            throw .unsupportedKey(purpose: purpose)
        }

        let identifier = try Self.userIdentifier(of: certificate)
        let hash = try Self.identifierHash(of: certificate)
        if let identifier, let hash, Self.hash(ofIdentifier: identifier) != hash {
            throw .merchantIdentifierDisagrees
        }
        merchantIdentifier = identifier
        merchantIdentifierHash = hash
    }

    /// Whether both ends of the validity admit `now`.
    public func isValid(at now: Date) -> Bool { notBefore <= now && now <= notAfter }
}

/// Why bytes are not read as a merchant's certificate. The sentences are for the administrator who gave them.
public enum MerchantCertificateError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Not X.509 in DER.
    case notACertificate
    /// Neither EC on P-256 nor RSA with 2048 bits.
    case unsupportedKey(purpose: CertificatePurpose)
    /// The subject carries no, or more than one, readable UID, or an unreasonable one.
    case merchantIdentifierUnreadable
    /// Extension 1.2.840.113635.100.6.32 is there and is not a UTF8String of 64 hex characters.
    case extensionUnreadable
    /// The extension's hash is not that of the subject's UID.
    case merchantIdentifierDisagrees

    public var description: String {
        switch self {
        case .notACertificate:
            "This is not an X.509 certificate in DER."
        case .unsupportedKey(let purpose):
            "The certificate's key is neither EC on P-256 nor RSA with 2048 bits, which Apple Pay Payment "
                + "Processing Certificates have; this is \(purpose.noun)."
        case .merchantIdentifierUnreadable:
            "The certificate's subject does not name one merchant identifier (UID, 0.9.2342.19200300.100.1.1) of 1 "
                + "to 255 bytes."
        case .extensionUnreadable:
            "The certificate's extension 1.2.840.113635.100.6.32 is not a UTF8String of 64 hex characters."
        case .merchantIdentifierDisagrees:
            "The certificate disagrees with itself: extension 1.2.840.113635.100.6.32 is not the SHA-256 of the "
                + "merchant identifier in its subject's UID. Fetch it anew from Apple's developer portal."
        }
    }
}

extension MerchantCertificate {
    /// SHA-256 of a merchant identifier's UTF-8 bytes, as Apple's extension carries it.
    static func hash(ofIdentifier identifier: String) -> [UInt8] {
        Array(SHA256.hash(data: Array(identifier.utf8)))
    }
}
