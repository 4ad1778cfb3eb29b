import Crypto
import CryptoExtras
public import Foundation
import SwiftASN1
import X509

/// Whom a token is encrypted to: the merchant's identifier and public key.
public struct Merchant: Sendable {
    public let identifier: String
    /// SubjectPublicKeyInfo in DER, P-256 or RSA.
    public let subjectPublicKeyInfo: [UInt8]

    public init(identifier: String, subjectPublicKeyInfo: [UInt8]) {
        self.identifier = identifier
        self.subjectPublicKeyInfo = subjectPublicKeyInfo
    }

    /// From a Payment Processing certificate (DER): the identifier is the subject's UID, unless one is given.
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

    /// SHA-256 of ``subjectPublicKeyInfo`` (32 bytes), the token's publicKeyHash.
    public var publicKeyHash: [UInt8] { Array(SHA256.hash(data: subjectPublicKeyInfo)) }

    /// Whether the key is P-256, the kind that EC_v1 needs.
    public var isEllipticCurve: Bool {
        (try? P256.KeyAgreement.PublicKey(derRepresentation: subjectPublicKeyInfo)) != nil
    }
}

/// A merchant with its private key and certificate, as an import wants it.
public struct ForgedMerchant: Sendable {
    public let merchant: Merchant
    public let key: ForgeKey
    /// The certificate in DER.
    public let certificate: [UInt8]

    /// A new key pair of `type` (`p256` or `rsa2048`), certified by `authority`.
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
