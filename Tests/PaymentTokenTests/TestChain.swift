import Crypto
import CryptoExtras
import Foundation
import SwiftASN1
import X509

/// Three certificates with Apple Pay's markers, made with swift-certificates, for what TokenForge does not vary.
struct TestChain {
    let root: Certificate
    let intermediateDER: [UInt8]
    let leafDER: [UInt8]

    /// What root and intermediate sign with.
    enum Issuers: CaseIterable {
        case p256, p384, p521, rsa
    }

    init(
        rootNotAfter: Date = Date(timeIntervalSince1970: 2_000_000_000), rootIsAuthority: Bool = true,
        issuers: Issuers = .p256
    ) throws {
        let keys =
            try (0..<2).map { _ in
                switch issuers {
                case .p256: Certificate.PrivateKey(P256.Signing.PrivateKey())
                case .p384: Certificate.PrivateKey(P384.Signing.PrivateKey())
                case .p521: Certificate.PrivateKey(P521.Signing.PrivateKey())
                case .rsa: try Certificate.PrivateKey(_RSA.Signing.PrivateKey(keySize: .bits2048))
                }
            } + [Certificate.PrivateKey(P256.Signing.PrivateKey())]
        let algorithm: Certificate.SignatureAlgorithm =
            switch issuers {
            case .p256: .ecdsaWithSHA256
            case .p384: .ecdsaWithSHA384
            case .p521: .ecdsaWithSHA512
            case .rsa: .sha256WithRSAEncryption
            }
        func certificate(
            _ name: String, _ key: Int, issuer: String, _ issuerKey: Int, notAfter: Date,
            extensions: Certificate.Extensions
        ) throws -> Certificate {
            try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: keys[key].publicKey,
                notValidBefore: Date(timeIntervalSince1970: 900_000_000), notValidAfter: notAfter,
                issuer: DistinguishedName { CommonName(issuer) }, subject: DistinguishedName { CommonName(name) },
                signatureAlgorithm: algorithm, extensions: extensions, issuerPrivateKey: keys[issuerKey])
        }
        let late = Date(timeIntervalSince1970: 2_000_000_000)
        root = try certificate(
            "root", 0, issuer: "root", 0, notAfter: rootNotAfter,
            extensions: Certificate.Extensions {
                Critical(
                    rootIsAuthority
                        ? BasicConstraints.isCertificateAuthority(maxPathLength: nil) : .notCertificateAuthority)
                Critical(KeyUsage(keyCertSign: true))
            })
        let intermediate = try certificate(
            "intermediate", 1, issuer: "root", 0, notAfter: late,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(keyCertSign: true))
                Certificate.Extension(
                    oid: [1, 2, 840, 113635, 100, 6, 2, 14], critical: false, value: [0x05, 0x00])
            })
        let leaf = try certificate(
            "leaf", 2, issuer: "intermediate", 1, notAfter: late,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true))
                Certificate.Extension(oid: [1, 2, 840, 113635, 100, 6, 29], critical: false, value: [0x05, 0x00])
            })
        intermediateDER = try Self.der(intermediate)
        leafDER = try Self.der(leaf)
    }

    private static func der(_ certificate: Certificate) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }
}
