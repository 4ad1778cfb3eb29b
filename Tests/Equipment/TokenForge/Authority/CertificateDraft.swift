import Crypto
public import Foundation

/// A distinguished name, as a list of attributes. Each is in a separate relative distinguished name.
struct Name: Sendable, Equatable {
    var attributes: [(type: String, value: String)]

    init(_ attributes: [(type: String, value: String)]) { self.attributes = attributes }

    /// Makes a name with its attributes in Apple's order: common name, unit, organization, country.
    init(commonName: String, unit: String, organization: String, country: String = "US") {
        attributes = [
            (OID.commonName, commonName), (OID.organizationalUnitName, unit),
            (OID.organizationName, organization), (OID.countryName, country),
        ]
    }

    /// The name in DER. The country is a PrintableString, and the others are UTF8Strings of any length, because common
    /// names of Apple's certificates exceed 64 characters.
    var encoded: [UInt8] {
        DEREncoder.sequence(
            of: attributes.map { attribute in
                DEREncoder.set(of: [
                    DEREncoder.sequence(
                        DEREncoder.objectIdentifier(attribute.type),
                        attribute.type == OID.countryName
                            ? DEREncoder.printableString(attribute.value) : DEREncoder.utf8String(attribute.value))
                ])
            })
    }

    static func == (one: Name, other: Name) -> Bool { one.encoded == other.encoded }
}

/// The bits of the KeyUsage extension (RFC 5280 §4.2.1.3).
struct KeyUsageBits: OptionSet, Sendable {
    let rawValue: UInt16
    static let digitalSignature = KeyUsageBits(rawValue: 0x8000)
    static let keyEncipherment = KeyUsageBits(rawValue: 0x2000)
    static let keyAgreement = KeyUsageBits(rawValue: 0x0800)
    static let keyCertSign = KeyUsageBits(rawValue: 0x0400)
    static let cRLSign = KeyUsageBits(rawValue: 0x0200)

    /// The bits as a DER named-bit list of one octet, without trailing zero bits (X.690 §11.2.2).
    var encoded: [UInt8] {
        let octet = UInt8(rawValue >> 8)
        return DEREncoder.bitString([octet], unusedBits: UInt8(octet == 0 ? 0 : octet.trailingZeroBitCount))
    }
}

/// A certificate extension: its identifier, its criticality, and the DER inside its OCTET STRING.
struct CertificateExtension: Sendable {
    var identifier: String
    var critical = false
    var value: [UInt8]

    var encoded: [UInt8] {
        DEREncoder.sequence(
            DEREncoder.objectIdentifier(identifier), critical ? DEREncoder.boolean(true) : [],
            DEREncoder.octetString(value))
    }
}

/// A certificate before its signature (RFC 5280 §4.1).
struct CertificateDraft {
    var serialNumber = CertificateDraft.freshSerialNumber()
    var issuer: Name
    var subject: Name
    var notBefore: Date
    var notAfter: Date
    var subjectPublicKeyInfo: [UInt8]
    var extensions: [CertificateExtension]

    /// A random serial number of 8 bytes, as Apple's certificates have. It is positive and has no leading zero byte.
    static func freshSerialNumber() -> [UInt8] {
        var bytes = (0..<8).map { _ in UInt8.random(in: .min ... .max) }
        bytes[0] = bytes[0] & 0x7f | 0x10
        return bytes
    }

    /// The certificate in DER, signed with `key`.
    func signed(by key: ForgeKey) throws -> [UInt8] {
        let toBeSigned = DEREncoder.sequence(
            DEREncoder.explicit(0, DEREncoder.integer(2)), DEREncoder.integer(serialNumber), key.signatureAlgorithm,
            issuer.encoded, DEREncoder.sequence(DEREncoder.time(notBefore), DEREncoder.time(notAfter)),
            subject.encoded, subjectPublicKeyInfo,
            DEREncoder.explicit(3, DEREncoder.sequence(of: extensions.map(\.encoded))))
        return DEREncoder.sequence(
            toBeSigned, key.signatureAlgorithm, DEREncoder.bitString(try key.signature(of: toBeSigned)))
    }
}

/// A certificate with its private key, and the fields that identify it as a signer.
public struct CertifiedKey: Sendable {
    public let key: ForgeKey
    /// The certificate in DER.
    public let certificate: [UInt8]
    let subject: Name
    let issuer: Name
    let serialNumber: [UInt8]
    public let notBefore: Date
    public let notAfter: Date

    init(_ draft: CertificateDraft, key: ForgeKey, signedBy issuerKey: ForgeKey) throws {
        self.key = key
        certificate = try draft.signed(by: issuerKey)
        subject = draft.subject
        issuer = draft.issuer
        serialNumber = draft.serialNumber
        notBefore = draft.notBefore
        notAfter = draft.notAfter
    }

    init(
        key: ForgeKey, certificate: [UInt8], subject: Name, issuer: Name, serialNumber: [UInt8], notBefore: Date,
        notAfter: Date
    ) {
        self.key = key
        self.certificate = certificate
        self.subject = subject
        self.issuer = issuer
        self.serialNumber = serialNumber
        self.notBefore = notBefore
        self.notAfter = notAfter
    }

    /// The certificate as PEM.
    public var certificatePEM: String { ForgePEM.text(certificate, label: "CERTIFICATE") }
}

/// The extensions that Apple's certificates have.
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

    /// A marker extension. Only its presence has a meaning; its value is NULL.
    static func marker(_ identifier: String) -> CertificateExtension {
        CertificateExtension(identifier: identifier, value: DEREncoder.null)
    }

    static func extendedKeyUsage(_ purpose: String) -> CertificateExtension {
        CertificateExtension(
            identifier: OID.extendedKeyUsage, critical: true,
            value: DEREncoder.sequence(DEREncoder.objectIdentifier(purpose)))
    }

    /// The extension with the address of an OCSP responder. Its host is in `.invalid` (RFC 6761), so that no program
    /// can reach it.
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
