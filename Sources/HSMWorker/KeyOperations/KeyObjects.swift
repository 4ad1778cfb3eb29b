import PKCS11

/// The objects that one merchant key is in a token: private key, public key, certificates. CKA_ID is the publicKeyHash
/// on all, CKA_LABEL the merchant identifier.
struct KeyObjects: Sendable {
    let publicKey: SubjectPublicKeyInfo
    let label: String

    private func common(_ objectClass: ObjectClass, isPrivate: Bool) -> [Attribute] {
        [
            .objectClass(objectClass), .token(true), .private(isPrivate), .identifier(publicKey.publicKeyHash),
            .label(label),
        ]
    }

    /// Besides the secret numbers.
    var privateKeyTemplate: Template {
        var template = Template(common(.privateKey, isPrivate: true))
        for attribute in KeyUsage.privateKey(publicKey.algorithm) { template.append(attribute) }
        switch publicKey.key {
        case .ec:
            for attribute: Attribute in [
                .keyType(.ec), .ecParameters(EllipticCurve.p256Parameters),
            ] { template.append(attribute) }
        case .rsa(let modulus, let publicExponent):
            for attribute: Attribute in [
                .keyType(.rsa), .modulus(modulus), .publicExponent(publicExponent),
            ] { template.append(attribute) }
        }
        return template
    }

    var publicKeyTemplate: Template {
        var template = Template(common(.publicKey, isPrivate: false) + KeyUsage.publicKey(publicKey.algorithm))
        switch publicKey.key {
        case .ec(let point):
            for attribute: Attribute in [
                .keyType(.ec), .ecParameters(EllipticCurve.p256Parameters),
                .ecPoint(EllipticCurve.attributeValue(forPoint: point)),
            ] { template.append(attribute) }
        case .rsa(let modulus, let publicExponent):
            for attribute: Attribute in [
                .keyType(.rsa), .modulus(modulus), .publicExponent(publicExponent),
            ] { template.append(attribute) }
        }
        return template
    }

    func certificateTemplate(_ der: [UInt8], _ fields: CertificateFields) -> Template {
        Template(
            common(.certificate, isPrivate: false) + [
                .x509Certificate, .subject(fields.subject), .issuer(fields.issuer),
                .serialNumber(fields.serialNumber), .value(der),
            ])
    }
}
