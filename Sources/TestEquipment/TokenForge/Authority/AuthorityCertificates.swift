import Foundation

/// The certificates of ``ForgeAuthority`` before their signatures.
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
