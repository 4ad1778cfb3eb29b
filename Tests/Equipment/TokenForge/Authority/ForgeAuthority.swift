public import Foundation

/// A small copy of Apple's certification authorities, under a root that is made for one run.
///
/// The structure is Apple's: a P-384 root, and under it a P-256 intermediate with marker 1.2.840.113635.100.6.2.14. The
/// intermediate issues two leaves with marker 1.2.840.113635.100.6.29, one with a P-256 key and one with an RSA-2048
/// key. Another authority under the root issues merchants' certificates. The names differ from Apple's, so that the
/// certificates cannot be confused.
public struct ForgeAuthority: Sendable {
    /// The root "Forge Root CA - G3": P-384, self-signed.
    public let root: CertifiedKey
    /// The intermediate "Forge Application Integration CA - G3": P-256.
    public let intermediate: CertifiedKey
    /// The leaf that signs EC_v1 payment tokens: P-256.
    public let leafEC: CertifiedKey
    /// The leaf that signs RSA_v1 payment tokens: RSA-2048, certified with ECDSA by the intermediate.
    public let leafRSA: CertifiedKey
    /// The authority "Forge Worldwide Developer Relations CA - G2", P-256, which issues merchants' certificates.
    public let developerRelations: CertifiedKey

    /// Makes new keys and certificates. The authorities are valid from ten years before `now`, and the leaves from four
    /// years before to one year after it, so that payment tokens with past signing times can be minted.
    public init(now: Date = Date()) throws {
        let rootKey = try ForgeKey(generating: .p384)
        root = try CertifiedKey(Self.rootDraft(key: rootKey, now: now), key: rootKey, signedBy: rootKey)

        let intermediateKey = try ForgeKey(generating: .p256)
        intermediate = try CertifiedKey(
            Self.intermediateDraft(IntermediateProfile(now: now), key: intermediateKey, root: rootKey),
            key: intermediateKey, signedBy: rootKey)

        let ecKey = try ForgeKey(generating: .p256)
        leafEC = try CertifiedKey(
            Self.leafDraft(
                LeafProfile(now: now), key: ecKey, issuer: Self.intermediateName, issuerKey: intermediateKey),
            key: ecKey, signedBy: intermediateKey)
        let rsaKey = try ForgeKey(generating: .rsa2048)
        leafRSA = try CertifiedKey(
            Self.leafDraft(
                LeafProfile(now: now), key: rsaKey, issuer: Self.intermediateName, issuerKey: intermediateKey),
            key: rsaKey, signedBy: intermediateKey)

        let relationsKey = try ForgeKey(generating: .p256)
        developerRelations = try CertifiedKey(
            Self.developerRelationsDraft(key: relationsKey, root: rootKey, now: now), key: relationsKey,
            signedBy: rootKey)
    }

    init(
        root: CertifiedKey, intermediate: CertifiedKey, leafEC: CertifiedKey, leafRSA: CertifiedKey,
        developerRelations: CertifiedKey
    ) {
        self.root = root
        self.intermediate = intermediate
        self.leafEC = leafEC
        self.leafRSA = leafRSA
        self.developerRelations = developerRelations
    }

    /// Returns the leaf that signs payment tokens of `version`: ``leafRSA`` for `RSA_…`, otherwise ``leafEC``.
    public func leaf(version: String) -> CertifiedKey { version.hasPrefix("RSA") ? leafRSA : leafEC }

    /// Returns the leaf of `version` with the same key and another certificate, which has the deviations of `profile`.
    func leaf(version: String, profile: LeafProfile) throws -> CertifiedKey {
        let key = leaf(version: version).key
        let issuer = profile.issuedByRoot ? root : intermediate
        let signingKey = profile.forgedIssuerSignature ? try ForgeKey(generating: .p256) : issuer.key
        return try CertifiedKey(
            Self.leafDraft(profile, key: key, issuer: issuer.subject, issuerKey: issuer.key), key: key,
            signedBy: signingKey)
    }

    /// Returns the intermediate with the same key and another certificate, which has the deviations of `profile`.
    func intermediate(profile: IntermediateProfile) throws -> CertifiedKey {
        try CertifiedKey(
            Self.intermediateDraft(profile, key: intermediate.key, root: root.key), key: intermediate.key,
            signedBy: root.key)
    }
}

/// The deviations of a leaf certificate from a genuine one.
struct LeafProfile {
    var notBefore: Date
    var notAfter: Date
    var markers = [OID.leafMarker]
    var keyUsage: KeyUsageBits = .digitalSignature
    var isCA = false
    var issuedByRoot = false
    var forgedIssuerSignature = false
    var unknownCriticalExtension = false

    init(now: Date) {
        notBefore = now.addingTimeInterval(-4 * Year.seconds)
        notAfter = now.addingTimeInterval(Year.seconds)
    }
}

/// The deviations of an intermediate certificate from a genuine one.
struct IntermediateProfile {
    var notBefore: Date
    var notAfter: Date
    var markers = [OID.intermediateMarker]
    var keyUsage: KeyUsageBits = [.keyCertSign, .cRLSign]
    var isCA = true

    init(now: Date) {
        notBefore = now.addingTimeInterval(-10 * Year.seconds)
        notAfter = now.addingTimeInterval(5 * Year.seconds)
    }
}

enum Year {
    static let seconds: TimeInterval = 365 * 86_400
}

/// Drafts of the authority's certificates, before they are signed.
extension ForgeAuthority {
    static let rootName = Name(
        commonName: "Forge Root CA - G3", unit: "Forge Certification Authority", organization: "Token Forge")
    static let intermediateName = Name(
        commonName: "Forge Application Integration CA - G3", unit: "Forge Certification Authority",
        organization: "Token Forge")
    static let developerRelationsName = Name(
        commonName: "Forge Worldwide Developer Relations CA - G2", unit: "Forge Certification Authority",
        organization: "Token Forge")

    static func leafName(for key: ForgeKey) -> Name {
        let prefix = if case .rsa = key { "rsa" } else { "ecc" }
        return Name(commonName: "\(prefix)-smp-broker-sign_FORGE", unit: "iOS Systems", organization: "Token Forge")
    }

    static func rootDraft(key: ForgeKey, now: Date) -> CertificateDraft {
        CertificateDraft(
            issuer: rootName, subject: rootName, notBefore: now.addingTimeInterval(-10 * Year.seconds),
            notAfter: now.addingTimeInterval(15 * Year.seconds), subjectPublicKeyInfo: key.subjectPublicKeyInfo,
            extensions: [
                .subjectKeyIdentifier(key.keyIdentifier), .basicConstraints(isCA: true),
                .keyUsage([.keyCertSign, .cRLSign]),
            ])
    }

    static func intermediateDraft(_ profile: IntermediateProfile, key: ForgeKey, root: ForgeKey) -> CertificateDraft {
        CertificateDraft(
            issuer: rootName, subject: intermediateName, notBefore: profile.notBefore, notAfter: profile.notAfter,
            subjectPublicKeyInfo: key.subjectPublicKeyInfo,
            extensions: [
                .authorityInformationAccess("root-g3"), .subjectKeyIdentifier(key.keyIdentifier),
                .basicConstraints(isCA: profile.isCA, pathLength: 0), .authorityKeyIdentifier(root.keyIdentifier),
                .crlDistributionPoints("root-g3"), .keyUsage(profile.keyUsage),
            ] + profile.markers.map { .marker($0) })
    }

    static func leafDraft(
        _ profile: LeafProfile, key: ForgeKey, issuer: Name, issuerKey: ForgeKey
    ) -> CertificateDraft {
        CertificateDraft(
            issuer: issuer, subject: leafName(for: key), notBefore: profile.notBefore, notAfter: profile.notAfter,
            subjectPublicKeyInfo: key.subjectPublicKeyInfo,
            extensions: [
                .basicConstraints(isCA: profile.isCA), .authorityKeyIdentifier(issuerKey.keyIdentifier),
                .authorityInformationAccess("aica-g3"), .certificatePolicies, .crlDistributionPoints("aica-g3"),
                .subjectKeyIdentifier(key.keyIdentifier), .keyUsage(profile.keyUsage),
            ] + profile.markers.map { .marker($0) }
                + (profile.unknownCriticalExtension
                    ? [CertificateExtension(identifier: OID.unknownExtension, critical: true, value: DEREncoder.null)]
                    : []))
    }

    static func developerRelationsDraft(key: ForgeKey, root: ForgeKey, now: Date) -> CertificateDraft {
        CertificateDraft(
            issuer: rootName, subject: developerRelationsName, notBefore: now.addingTimeInterval(-10 * Year.seconds),
            notAfter: now.addingTimeInterval(10 * Year.seconds), subjectPublicKeyInfo: key.subjectPublicKeyInfo,
            extensions: [
                .subjectKeyIdentifier(key.keyIdentifier), .basicConstraints(isCA: true, pathLength: 0),
                .authorityKeyIdentifier(root.keyIdentifier), .keyUsage([.keyCertSign, .cRLSign]),
            ])
    }
}
