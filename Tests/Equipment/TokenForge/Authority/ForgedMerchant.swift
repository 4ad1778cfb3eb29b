import Crypto
import CryptoExtras
public import Foundation
import SwiftASN1
import X509

/// The recipient of a payment token: the merchant's identifier and public key.
public struct Merchant: Sendable {
    public let identifier: String
    /// SubjectPublicKeyInfo in DER, P-256 or RSA.
    public let subjectPublicKeyInfo: [UInt8]

    public init(identifier: String, subjectPublicKeyInfo: [UInt8]) {
        self.identifier = identifier
        self.subjectPublicKeyInfo = subjectPublicKeyInfo
    }

    /// Reads a Payment Processing certificate in DER. The merchant identifier is `identifier`, or the subject's UID if
    /// that is nil.
    public init(certificate der: [UInt8], identifier: String? = nil) throws(ForgeFailure) {
        guard let certificate = try? Certificate(derEncoded: der) else {
            throw .certificate("not an X.509 certificate")
        }
        let userID = certificate.subject.lazy.flatMap { $0 }
            .first { "\($0.type)" == OID.userID }.flatMap { String($0.value) }
        guard let identifier = identifier ?? userID else {
            throw .certificate("the certificate's subject has no UID; name the merchant identifier")
        }
        var serializer = DER.Serializer()
        do { try serializer.serialize(certificate.publicKey) } catch { throw .certificate("unreadable public key") }
        self.init(identifier: identifier, subjectPublicKeyInfo: serializer.serializedBytes)
    }

    /// The SHA-256 of ``subjectPublicKeyInfo`` (32 bytes), which payment tokens contain as publicKeyHash.
    public var publicKeyHash: [UInt8] { Array(SHA256.hash(data: subjectPublicKeyInfo)) }

    /// True if the key is P-256, which EC_v1 requires.
    public var isEllipticCurve: Bool {
        (try? P256.KeyAgreement.PublicKey(derRepresentation: subjectPublicKeyInfo)) != nil
    }
}

/// A merchant with its private key and certificate, which tests import.
public struct ForgedMerchant: Sendable {
    public let merchant: Merchant
    public let key: ForgeKey
    /// The certificate in DER.
    public let certificate: [UInt8]

    /// Makes a new key pair of `type` (`p256` or `rsa2048`), and has `authority` certify it.
    public init(
        authority: ForgeAuthority, type: ForgeKeyType, profile: MerchantCertificateProfile, key: ForgeKey? = nil
    ) throws {
        self.key = try key ?? ForgeKey(generating: type)
        certificate = try authority.merchantCertificate(
            subjectPublicKeyInfo: self.key.subjectPublicKeyInfo, profile: profile)
        merchant = Merchant(
            identifier: profile.merchantIdentifier, subjectPublicKeyInfo: self.key.subjectPublicKeyInfo)
    }

    /// Writes PREFIX.key.pem, PREFIX.key.der (PKCS#8, mode 0600), PREFIX.pem and PREFIX.der into `directory`.
    public func write(to directory: URL, prefix: String) throws {
        try SecretFile.write(Array(key.pem.utf8), to: directory.appending(path: "\(prefix).key.pem"))
        try SecretFile.write(key.pkcs8, to: directory.appending(path: "\(prefix).key.der"))
        try Data(ForgePEM.text(certificate, label: "CERTIFICATE").utf8).write(
            to: directory.appending(path: "\(prefix).pem"))
        try Data(certificate).write(to: directory.appending(path: "\(prefix).der"))
    }
}

/// The kinds of certificates that Apple issues for a merchant.
public enum ForgedCertificateKind: String, Sendable, CaseIterable {
    /// A certificate for the key that decrypts payment tokens. Its key usage is keyEncipherment and keyAgreement.
    case paymentProcessing = "payment-processing"
    /// A certificate for the key with which merchants' servers authenticate to Apple. Its usages are digitalSignature
    /// and clientAuth. Operators often import it by mistake as a certificate for decryption.
    case merchantIdentity = "merchant-identity"

    var commonNamePrefix: String {
        switch self {
        case .paymentProcessing: "Apple Pay Payment Processing:"
        case .merchantIdentity: "Apple Pay Merchant Identity:"
        }
    }
}

/// The parts of a merchant's certificate that a test can choose.
public struct MerchantCertificateProfile: Sendable {
    public var kind: ForgedCertificateKind = .paymentProcessing
    public var merchantIdentifier: String
    /// The start of validity; 25 months before `notAfter` by default.
    public var notBefore: Date
    public var notAfter: Date
    /// True to omit the subject's UID.
    public var omitsUserID = false
    /// True to omit extension 1.2.840.113635.100.6.32.
    public var omitsExtension = false
    /// The identifier whose hash is in the extension; nil for the subject's.
    public var extensionMerchantIdentifier: String?

    /// Makes a profile that is valid for 25 months from yesterday, or for 25 months until yesterday if `expired` is
    /// true.
    public init(
        merchantIdentifier: String, kind: ForgedCertificateKind = .paymentProcessing, expired: Bool = false,
        now: Date = Date()
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.kind = kind
        let lifetime: TimeInterval = 760 * 86_400
        notBefore = now.addingTimeInterval(-86_400 - (expired ? lifetime : 0))
        notAfter = notBefore.addingTimeInterval(lifetime)
    }
}

extension ForgeAuthority {
    /// Issues a merchant's certificate for the public key `subjectPublicKeyInfo`. Both are DER.
    public func merchantCertificate(
        subjectPublicKeyInfo: [UInt8], profile: MerchantCertificateProfile
    ) throws -> [UInt8] {
        var subject: [(type: String, value: String)] = []
        if !profile.omitsUserID { subject.append((OID.userID, profile.merchantIdentifier)) }
        subject += [
            (OID.commonName, profile.kind.commonNamePrefix + profile.merchantIdentifier),
            (OID.organizationalUnitName, "F0RGE12345"), (OID.organizationName, "Forge Merchant"),
            (OID.countryName, "US"),
        ]
        var extensions: [CertificateExtension] = [
            .basicConstraints(isCA: false), .authorityKeyIdentifier(developerRelations.key.keyIdentifier),
            .authorityInformationAccess("wwdr-g2"), .certificatePolicies, .crlDistributionPoints("wwdr-g2"),
            .subjectKeyIdentifier(SubjectPublicKey.keyIdentifier(of: subjectPublicKeyInfo)),
        ]
        switch profile.kind {
        case .paymentProcessing: extensions.append(.keyUsage([.keyEncipherment, .keyAgreement]))
        case .merchantIdentity: extensions += [.extendedKeyUsage(OID.clientAuth), .keyUsage(.digitalSignature)]
        }
        if !profile.omitsExtension {
            let identifier = profile.extensionMerchantIdentifier ?? profile.merchantIdentifier
            let hash = SHA256.hash(data: Array(identifier.utf8)).map(HexCase.upper).joined()
            extensions.append(
                CertificateExtension(identifier: OID.merchantIdentifier, value: DEREncoder.utf8String(hash)))
        }
        return try CertificateDraft(
            issuer: Self.developerRelationsName, subject: Name(subject), notBefore: profile.notBefore,
            notAfter: profile.notAfter, subjectPublicKeyInfo: subjectPublicKeyInfo, extensions: extensions
        ).signed(by: developerRelations.key)
    }

    /// Issues a merchant's certificate for a PKCS#10 request, both in DER. Verifies the request's signature, and
    /// ignores the requested subject, as Apple's portal does.
    public func merchantCertificate(
        certificateSigningRequest: [UInt8], profile: MerchantCertificateProfile
    ) throws -> [UInt8] {
        let request: CertificateSigningRequest
        do {
            request = try CertificateSigningRequest(derEncoded: certificateSigningRequest)
        } catch {
            throw ForgeFailure.certificate("the certificate request is not PKCS#10: \(error)")
        }
        guard request.publicKey.isValidSignature(request.signature, for: request) else {
            throw ForgeFailure.certificate("the certificate request is not signed by the key that it is for")
        }
        var serializer = DER.Serializer()
        try serializer.serialize(request.publicKey)
        return try merchantCertificate(subjectPublicKeyInfo: serializer.serializedBytes, profile: profile)
    }
}

extension ForgeKey {
    /// Returns a request for a certificate of this key: PKCS#10 (RFC 2986) in DER, with a subject that the issuer ignores.
    public func certificateRequest() throws -> [UInt8] {
        let (key, algorithm): (Certificate.PrivateKey, Certificate.SignatureAlgorithm) =
            switch self {
            case .p256(let key): (.init(key), .ecdsaWithSHA256)
            case .p384(let key): (.init(key), .ecdsaWithSHA384)
            case .rsa(let key): (.init(key), .sha256WithRSAEncryption)
            }
        let request = try CertificateSigningRequest(
            version: .v1, subject: DistinguishedName { CommonName("A shop") }, privateKey: key,
            attributes: CertificateSigningRequest.Attributes(), signatureAlgorithm: algorithm)
        var serializer = DER.Serializer()
        try serializer.serialize(request)
        return serializer.serializedBytes
    }
}
