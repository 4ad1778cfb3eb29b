import Crypto
import CryptoExtras
import Encodings
public import Foundation
public import KeyTypes
public import PaymentToken
public import Refusals
import SwiftASN1
import X509

/// A certificate that Apple issued to a merchant, parsed as far as needed for a merchant key.
///
/// This type does not verify Apple's signature. The certificate comes from an administrator, its key must be the
/// private key's, and only the ledger decides the merchant.
public struct MerchantCertificate: Sendable, Equatable {
    /// The bytes as received.
    public let der: [UInt8]
    /// SHA-256 of the whole certificate, 32 bytes.
    public let sha256: [UInt8]
    /// SHA-256 of its SubjectPublicKeyInfo, which Apple's payment tokens call publicKeyHash.
    public let publicKeyHash: PublicKeyHash
    public let algorithm: KeyAlgorithm
    /// The subject's UID attribute (RFC 4519 §2.39) as plain text: `merchant.com.example`. Nil if there is none.
    public let merchantIdentifier: String?
    /// SHA-256 of the merchant identifier from Apple's extension 1.2.840.113635.100.6.32, 32 bytes; nil if there is
    /// none.
    public let merchantIdentifierHash: [UInt8]?
    public let purpose: CertificatePurpose
    /// The subject as RFC 4514 writes it, for human readers.
    public let subject: String
    public let issuer: String
    /// The serial number in lower-case hex.
    public let serialNumber: String
    public let notBefore: Date
    public let notAfter: Date

    /// Parses X.509 in DER (RFC 5280 §4.1).
    ///
    /// A certificate of any other kind is parsed as well, so that an error message can name the kind.
    public init(der: [UInt8]) throws(MerchantCertificateError) {
        let certificate: Certificate
        let subjectPublicKeyInfo: [UInt8]
        do {
            // The key's bytes as Apple encoded them, because the hash is over these bytes.
            subjectPublicKeyInfo = Array(try CertificateFields(der: der).subjectPublicKeyInfo)
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

    /// Returns true if `now` is within the validity period, both ends included.
    public func isValid(at now: Date) -> Bool { notBefore <= now && now <= notAfter }
}

/// The reason why a certificate cannot be a merchant's. The description is for the administrator who supplied it.
public enum MerchantCertificateError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Not X.509 in DER.
    case notACertificate
    /// The key is neither EC on P-256 nor RSA with 2048 bits.
    case unsupportedKey(purpose: CertificatePurpose)
    /// The subject has no readable UID, more than one, or one of an invalid form.
    case merchantIdentifierUnreadable
    /// The extension 1.2.840.113635.100.6.32 is not a UTF8String of 64 hex characters.
    case extensionUnreadable
    /// The extension's hash is not the hash of the subject's UID.
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
                + "merchant identifier in its subject's UID. Download it again from Apple's developer portal."
        }
    }
}

extension MerchantCertificate {
    /// Checks that this certificate may be imported for a merchant key.
    ///
    /// - Parameters:
    ///   - use: the use of the certificate's key; nil to accept either of Apple's two kinds of merchant certificates.
    ///   - expected: the merchant identifier that the administrator named, if any. A certificate without a UID is
    ///     accepted if the extension's hash is the hash of this identifier.
    ///   - allowExpired: true to accept a certificate that has expired. A certificate that becomes valid within a day
    ///     is always accepted, since clocks differ; one that becomes valid later never is.
    /// - Returns: the merchant identifier.
    /// - Throws: `certificate_unsuitable`, with the certificate's actual kind.
    public func merchantForImport(
        for use: KeyUse? = nil, expected: String?, allowExpired: Bool, now: Date
    ) throws(Refusal) -> String {
        guard let found = purpose.use, use == nil || found == use else {
            let wanted =
                use.map { $0 == .processing ? "an Apple Pay Payment Processing Certificate" : "an identity key's" }
                ?? "a merchant's certificate of Apple Pay"
            throw Refusal(
                .certificateUnsuitable, "This is not \(wanted) but \(purpose.noun).",
                details: "subject \(subject.prefix(300))")
        }
        guard found == .processing || algorithm == .rsa else {
            throw Refusal(
                .certificateUnsuitable,
                "This Apple Pay Merchant Identity Certificate has an EC key; Apple issues them for RSA keys of 2048 bits, "
                    + "and paytokend supports only those.", details: "subject \(subject.prefix(300))")
        }
        guard now.addingTimeInterval(86_400) >= notBefore else {
            throw Refusal(
                .certificateUnsuitable, "The certificate is not valid yet; check this machine's clock.",
                details: "valid from \(notBefore.formatted(.iso8601))")
        }
        guard now <= notAfter || allowExpired && found == .processing else {
            throw Refusal(
                .certificateUnsuitable,
                found == .processing
                    ? "The certificate has expired. Allow it (allowExpired) if payment tokens under it are still to be opened."
                    : "The certificate has expired, and Apple's servers refuse it. Have a new one issued.",
                details: "valid until \(notAfter.formatted(.iso8601))")
        }
        if let expected, !names(expected) {
            throw Refusal(
                .certificateUnsuitable, "The certificate belongs to another merchant than the named one.",
                details: merchantIdentifier.map { "certificate: \($0)" })
        }
        guard let merchant = merchantIdentifier ?? expected else {
            throw Refusal(
                .certificateUnsuitable,
                "The certificate has no merchant identifier in its subject (UID). Name it in the request (merchantIdentifier)."
            )
        }
        return merchant
    }

    /// Returns true if the certificate is for this merchant: by the subject's UID, or by the hash if there is none.
    public func names(_ merchant: String) -> Bool {
        if let merchantIdentifier { return merchantIdentifier == merchant }
        return merchantIdentifierHash == Self.hash(ofIdentifier: merchant)
    }

    /// SHA-256 of a merchant identifier's UTF-8 bytes, as in Apple's extension.
    private static func hash(ofIdentifier identifier: String) -> [UInt8] {
        Array(SHA256.hash(data: Array(identifier.utf8)))
    }

    static func userIdentifier(of certificate: Certificate) throws(MerchantCertificateError) -> String? {
        let values = certificate.subject.flatMap { Array($0) }.filter { $0.type == .userIdentifier }.map(\.value)
        guard let value = values.first else { return nil }
        guard values.count == 1, let text = String(value), MerchantIdentifier.isPossible(text)
        else { throw .merchantIdentifierUnreadable }
        return text
    }

    /// The hash in the extension. The value is a UTF8String of 64 hex characters, `0c 40 …`; Apple writes them in
    /// upper case.
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
    /// The attribute `uid` (RFC 4519 §2.39).
    static let userIdentifier: ASN1ObjectIdentifier = [0, 9, 2342, 19_200_300, 100, 1, 1]
    /// Apple's extension with the SHA-256 of the merchant identifier.
    static let merchantIdentifierHash: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 32]
    /// Apple's marker on the certificates that sign payment tokens.
    static let paymentTokenSigner: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 29]
    /// Apple's markers on push certificates.
    static let pushDevelopment: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 1]
    static let pushProduction: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 2]
}

/// Apple's identifier of a merchant: `merchant.com.example`.
public enum MerchantIdentifier {
    /// Returns true for 1 to 255 bytes of UTF-8 that contain no control characters and are not all blank. Forms
    /// other than Apple's are accepted.
    public static func isPossible(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count)
            && text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
            && text.unicodeScalars.contains { !$0.properties.isWhitespace && $0.properties.generalCategory != .format }
    }
}
