/// The extensions that Apple's certificates carry, as values.
extension CertificateExtension {
    static func basicConstraints(isCA: Bool, pathLength: UInt8? = nil) -> CertificateExtension {
        let length = pathLength.map { DEREncoder.integer($0) } ?? []
        let value = isCA ? DEREncoder.sequence(DEREncoder.boolean(true), length) : DEREncoder.sequence()
        return CertificateExtension(identifier: OID.basicConstraints, critical: true, value: value)
    }

    static func keyUsage(_ bits: KeyUsageBits) -> CertificateExtension {
        CertificateExtension(identifier: OID.keyUsage, critical: true, value: bits.encoded)
    }

    static func subjectKeyIdentifier(_ identifier: [UInt8]) -> CertificateExtension {
        CertificateExtension(identifier: OID.subjectKeyIdentifier, value: DEREncoder.octetString(identifier))
    }

    static func authorityKeyIdentifier(_ identifier: [UInt8]) -> CertificateExtension {
        CertificateExtension(
            identifier: OID.authorityKeyIdentifier, value: DEREncoder.sequence(DEREncoder.element(0x80, identifier)))
    }

    /// A marker: only its presence counts, the value is NULL.
    static func marker(_ identifier: String) -> CertificateExtension {
        CertificateExtension(identifier: identifier, value: DEREncoder.null)
    }

    static func extendedKeyUsage(_ purpose: String) -> CertificateExtension {
        CertificateExtension(
            identifier: OID.extendedKeyUsage, critical: true,
            value: DEREncoder.sequence(DEREncoder.objectIdentifier(purpose)))
    }

    /// An OCSP responder's address. The host is in `.invalid` (RFC 6761), so that nobody can ask it.
    static func authorityInformationAccess(_ path: String) -> CertificateExtension {
        CertificateExtension(
            identifier: OID.authorityInformationAccess,
            value: DEREncoder.sequence(
                DEREncoder.sequence(
                    DEREncoder.objectIdentifier(OID.ocsp),
                    DEREncoder.ia5String(tag: 0x86, "http://ocsp.forge.invalid/\(path)"))))
    }

    static func crlDistributionPoints(_ path: String) -> CertificateExtension {
        let address = DEREncoder.ia5String(tag: 0x86, "http://crl.forge.invalid/\(path).crl")
        return CertificateExtension(
            identifier: OID.crlDistributionPoints,
            value: DEREncoder.sequence(
                DEREncoder.sequence(DEREncoder.explicit(0, DEREncoder.explicit(0, address)))))
    }

    static let certificatePolicies = CertificateExtension(
        identifier: OID.certificatePolicies,
        value: DEREncoder.sequence(DEREncoder.sequence(DEREncoder.objectIdentifier(OID.appleCertificatePolicy))))
}
