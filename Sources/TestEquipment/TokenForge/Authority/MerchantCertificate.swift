import Crypto
public import Foundation
import SwiftASN1
import X509

/// What Apple certifies for a merchant.
public enum ForgedCertificateKind: String, Sendable, CaseIterable {
    /// The key that tokens are encrypted to: key usage keyEncipherment and keyAgreement.
    case paymentProcessing = "payment-processing"
    /// The key that merchants' servers identify themselves with to Apple: digitalSignature, clientAuth. Importing
    /// this one for decryption is the commonest mistake.
    case merchantIdentity = "merchant-identity"

    var commonNamePrefix: String {
        switch self {
        case .paymentProcessing: "Apple Pay Payment Processing:"
        case .merchantIdentity: "Apple Pay Merchant Identity:"
        }
    }
}

/// What a merchant's certificate is to say.
public struct MerchantCertificateProfile: Sendable {
    public var kind: ForgedCertificateKind = .paymentProcessing
    public var merchantIdentifier: String
    /// From; 25 months before `notAfter` unless set.
    public var notBefore: Date
    public var notAfter: Date
    /// Leaves out the subject's UID.
    public var omitsUserID = false
    /// Leaves out extension 1.2.840.113635.100.6.32.
    public var omitsExtension = false
    /// The identifier whose hash the extension carries, if another than the subject's.
    public var extensionMerchantIdentifier: String?

    /// Valid from yesterday for 25 months; with `expired`, the 25 months ended yesterday.
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
    /// A merchant's certificate in DER for the public key `subjectPublicKeyInfo` (DER).
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

    /// A merchant's certificate in DER for a PKCS#10 request (DER), whose signature is checked; the subject that it
    /// asks for is ignored, as Apple's portal does.
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

/// Hexadecimal digits of a byte.
enum HexCase {
    static func upper(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true) }
    static func lower(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16) }
}
