import PKCS11
import WorkerProtocol

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

/// What a merchant's key may be used for, and how it is kept; every other use is forbidden by name, because what is
/// not mentioned some tokens allow.
///
/// It may sign as well as restore: its certificate is asked for with a PKCS#10 request, which the key itself signs
/// (RFC 2986 §3), and many tokens allow no later change. SP 800-57 part 1 §5.2 grants a key-establishment key that one
/// signature.
enum KeyUsage {
    static func privateKey(_ algorithm: KeyAlgorithm) -> [Attribute] {
        let isRSA = algorithm == .rsa
        return [
            .sensitive(true), .extractable(false), .sign(true), .derive(!isRSA), .decrypt(isRSA), .unwrap(isRSA),
        ]
    }

    static func publicKey(_ algorithm: KeyAlgorithm) -> [Attribute] {
        [.verify(true), .encrypt(algorithm == .rsa), .wrap(false)]
    }
}

extension OpenToken {
    /// Removes a key's objects: the private key first, so that whatever interrupts it leaves nothing that decrypts. A key
    /// that is not there is gone already.
    func destroyKey(_ publicKeyHash: [UInt8], in session: inout Session) throws(WorkerFailure) {
        let isGone: Bool
        do throws(CallError) {
            if let entry = keys.remove(publicKeyHash), entry.working != entry.object {
                // The copy that works in memory would go on without its original. Where the token has lost the session
                // that it belonged to, it is gone already.
                do throws(CallError) {
                    try session.destroyObject(entry.working)
                } catch {
                    guard error.isStaleHandle else { throw error }
                }
            }
            for objectClass: ObjectClass in [.privateKey, .publicKey, .certificate] {
                for object in try session.findObjects(matching: Self.objects(objectClass, publicKeyHash)) {
                    try session.destroyObject(object)
                }
            }
            isGone = try session.findObjects(matching: Self.objects(.privateKey, publicKeyHash)).isEmpty
        } catch {
            throw WorkerFailure(.tokenUnavailable, "The key's objects cannot be destroyed: \(error).")
        }
        guard isGone else {
            throw WorkerFailure(.tokenUnavailable, "The token says that the key is destroyed, and still shows it.")
        }
    }

    private static func objects(_ objectClass: ObjectClass, _ publicKeyHash: [UInt8]) -> Template {
        [.objectClass(objectClass), .token(true), .identifier(publicKeyHash)]
    }
}
