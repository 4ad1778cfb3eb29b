/// A SignerInfo (RFC 5652 §5.3) whose parts are already encoded.
struct SignerInfoDraft {
    var version: UInt8 = 1
    var identifier: [UInt8]
    var digestAlgorithm: [UInt8]
    /// The encoded signed attributes; nil to omit the field.
    var signedAttributes: [[UInt8]]?
    var signatureAlgorithm: [UInt8]
    var signature: [UInt8]

    var encoded: [UInt8] {
        let attributes = signedAttributes.map { DEREncoder.element(0xa0, DEREncoder.sorted($0).flatMap { $0 }) } ?? []
        return DEREncoder.sequence(
            DEREncoder.integer(version), identifier, digestAlgorithm, attributes, signatureAlgorithm,
            DEREncoder.octetString(signature))
    }
}

/// A ContentInfo with SignedData (RFC 5652 §3 and §5.1) in which every field can be chosen.
struct SignedDataDraft {
    var version: UInt8 = 1
    var digestAlgorithms: [[UInt8]]
    var encapsulatedContent: [UInt8]?
    var certificates: [[UInt8]]
    var revocationLists: [[UInt8]] = []
    var signerInfos: [SignerInfoDraft]

    /// Encodes the message. With `indefiniteLengths`, five levels have indefinite lengths, as in real payment tokens:
    /// ContentInfo, its [0], SignedData, encapContentInfo and certificates. signerInfos always has a definite length.
    func encoded(indefiniteLengths: Bool) -> [UInt8] {
        func level(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
            indefiniteLengths ? DEREncoder.indefinite(tag, content) : DEREncoder.element(tag, content)
        }
        let content = encapsulatedContent.map { level(0xa0, DEREncoder.octetString($0)) } ?? []
        let signedData = level(
            0x30,
            DEREncoder.integer(version) + DEREncoder.set(of: digestAlgorithms)
                + level(0x30, DEREncoder.objectIdentifier(OID.data) + content)
                + (certificates.isEmpty ? [] : level(0xa0, certificates.flatMap { $0 }))
                + (revocationLists.isEmpty ? [] : DEREncoder.element(0xa1, revocationLists.flatMap { $0 }))
                + DEREncoder.set(of: signerInfos.map(\.encoded)))
        return level(0x30, DEREncoder.objectIdentifier(OID.signedData) + level(0xa0, signedData))
    }

    /// Encodes `Attribute ::= SEQUENCE { attrType, attrValues SET OF }`.
    static func attribute(_ type: String, _ values: [UInt8]...) -> [UInt8] {
        DEREncoder.sequence(DEREncoder.objectIdentifier(type), DEREncoder.set(of: values))
    }

    static func algorithm(_ identifier: String, null: Bool) -> [UInt8] {
        DEREncoder.sequence(DEREncoder.objectIdentifier(identifier), null ? DEREncoder.null : [])
    }
}

/// Bundles of several certificates, as Apple's portal and other programs export them.
public enum ForgedCertificateBundle {
    /// Returns a PKCS#7 bundle, which is SignedData without a signer (RFC 5652 §5.1). It is DER, or has indefinite
    /// lengths at the levels for which streaming writers use them.
    ///
    /// - Parameter certificates: the certificates in DER, in the order of the bundle.
    public static func pkcs7(_ certificates: [[UInt8]], indefiniteLengths: Bool = false) -> [UInt8] {
        SignedDataDraft(digestAlgorithms: [], certificates: certificates, signerInfos: [])
            .encoded(indefiniteLengths: indefiniteLengths)
    }
}
