import Encodings
import KeyTypes
import PKCS11
import WorkerProtocol

/// The objects of one merchant key in an HSM token: private key, public key, certificates. On all of them CKA_ID is the
/// publicKeyHash, and CKA_LABEL is the merchant identifier.
struct KeyObjects: Sendable {
    let publicKey: SubjectPublicKeyInfo
    let label: String
    var use = KeyUse.processing

    private func common(_ objectClass: ObjectClass, isPrivate: Bool) -> [Attribute] {
        [
            .objectClass(objectClass), .token(true), .private(isPrivate), .identifier(publicKey.publicKeyHash),
            .label(label),
        ]
    }

    /// The templates for both halves of the pair, in the form of `profile`. The private key's template lacks the secret
    /// numbers, which the caller passes separately when it creates the object.
    func templates(_ profile: KeyProfile = KeyProfile()) -> (publicKey: Template, privateKey: Template) {
        (
            Template(
                common(.publicKey, isPrivate: false) + Self.publicKeyUsage(publicKey.algorithm, use, profile)
                    + publicKey.key.publicAttributes),
            Template(
                common(.privateKey, isPrivate: true) + Self.privateKeyUsage(publicKey.algorithm, use, profile)
                    + publicKey.key.attributes)
        )
    }

    func certificateTemplate(_ der: [UInt8], _ fields: CertificateAttributes) -> Template {
        Template(
            common(.certificate, isPrivate: false) + [
                .x509Certificate, .subject(fields.subject), .issuer(fields.issuer),
                .serialNumber(fields.serialNumber), .value(der),
            ])
    }

    // MARK: Usage

    /// The permitted uses of a private key, and its protection.
    ///
    /// - Parameter signs: CKA_SIGN; nil for the default, which is true for the keys that restore nothing. The caller
    ///   passes true for a processing key if the HSM token cannot lend it the right to sign its certificate request
    ///   (``Session/signRequest(_:_:with:)``).
    static func privateKeyUsage(
        _ algorithm: KeyAlgorithm, _ use: KeyUse, _ profile: KeyProfile = KeyProfile(), signs: Bool? = nil
    ) -> [Attribute] {
        let restores = use.restores
        let unwraps = restores && algorithm == .rsa && profile.unwraps
        let uses: [(permitted: Bool, attribute: (Bool) -> Attribute)] = [
            (signs ?? !restores, Attribute.sign), (false, Attribute.signRecover),
            (restores && algorithm == .ec, Attribute.derive), (restores && algorithm == .rsa, Attribute.decrypt),
            (unwraps, Attribute.unwrap),
        ]
        return [.sensitive(true), .extractable(false)]
            + uses.filter { $0.permitted || profile.forbidsByName }.map { $0.attribute($0.permitted) }
    }

    /// The permitted uses of a public key. A form that forbids uses by name sets CKA_VERIFY for every use, since each
    /// key signs something, at least its certificate request. The shortest form omits it, since the worker verifies
    /// signatures itself, and in a TPM CKA_VERIFY implies CKA_DECRYPT.
    static func publicKeyUsage(
        _ algorithm: KeyAlgorithm, _ use: KeyUse, _ profile: KeyProfile = KeyProfile()
    ) -> [Attribute] {
        let encrypts = algorithm == .rsa && use == .processing
        guard profile.forbidsByName else { return encrypts ? [.encrypt(true)] : [] }
        return [.verify(true), .encrypt(encrypts), .wrap(false)]
    }
}

extension OpenToken {
    /// Removes a key's objects: the private key first, so that an interruption leaves no key that decrypts. Succeeds
    /// for a key that the HSM token does not have.
    func destroyKey(_ publicKeyHash: [UInt8], in session: inout Session) throws(WorkerFailure) {
        let isGone: Bool
        do throws(CallError) {
            isGone = try withoutKeyUses { () throws(CallError) in
                if let entry = keys.remove(publicKeyHash), entry.hasCopy {
                    // The working copy would continue to decrypt after the stored key was destroyed.
                    try session.destroyIfPresent(entry.working)
                }
                let found = try session.storedObjects(identifiedBy: publicKeyHash)
                for objectClass: ObjectClass in [.privateKey, .publicKey, .certificate] {
                    for object in found[objectClass] ?? [] { try session.destroyIfPresent(object) }
                }
                return try session.storedObjects(identifiedBy: publicKeyHash)[.privateKey] == nil
            }
        } catch {
            throw WorkerFailure(.hsmTokenUnavailable, "The key's objects cannot be destroyed: \(error).")
        }
        guard isGone else {
            throw WorkerFailure(
                .hsmTokenUnavailable, "The HSM token reports that the key is destroyed, but still shows it.")
        }
    }
}

extension Session {
    /// Verifies that a private key is sensitive and non-extractable, and that its rights are those of `use`. HSM tokens
    /// do not always follow a template.
    mutating func requireProtection(
        of object: ObjectHandle, _ algorithm: KeyAlgorithm, for use: KeyUse
    ) throws(WorkerFailure) {
        let values = try refusingOnError { (session) throws(CallError) in
            try session.attributes([.sensitive, .extractable] + KeyRights.attributes, of: object)
        }
        guard values.flag(.sensitive) != nil, values.flag(.extractable) != nil else {
            throw WorkerFailure(
                .importRefused,
                "The HSM token does not show whether the private key is protected: CKA_SENSITIVE or CKA_EXTRACTABLE "
                    + "cannot be read.")
        }
        guard values.flag(.sensitive) == true, values.flag(.extractable) == false else {
            throw WorkerFailure(
                .importRefused, "The HSM token would keep the private key extractable or not sensitive.")
        }
        guard KeyRights(values).use(of: algorithm) == use.inHSMToken else {
            throw WorkerFailure(
                .importRefused,
                use.restores
                    ? "The HSM token would not let the \(use.noun) restore payments' keys."
                    : "The HSM token would permit other uses of the \(use.noun) than signatures, or no signatures.")
        }
    }

    /// Makes calls into the library. Throws `importRefused` for a failed call if the user is still logged in and the
    /// call did not report that the session or the HSM token is gone; otherwise `hsmTokenUnavailable`.
    mutating func refusingOnError<Result>(
        _ body: (inout Session) throws(CallError) -> Result
    ) throws(WorkerFailure) -> Result {
        do {
            return try body(&self)
        } catch {
            guard !error.isConnectionLost, (try? loggedInUser()) == .user else {
                throw WorkerFailure(.hsmTokenUnavailable, "\(error).")
            }
            throw WorkerFailure(.importRefused, "The HSM token refuses the operation: \(error).")
        }
    }
}

/// The attributes that a CKO_CERTIFICATE object needs in addition to the certificate (PKCS#11 v2.40 base §4.6.3). Only
/// the certificate's structure is checked: the daemon validates certificates.
struct CertificateAttributes: Sendable {
    /// The serial number's INTEGER in DER. The issuer and the subject are Names in DER.
    let serialNumber: [UInt8]
    let issuer: [UInt8]
    let subject: [UInt8]
    let publicKey: SubjectPublicKeyInfo

    init(der: [UInt8]) throws(UnsuitableKey) {
        let fields: CertificateFields
        do {
            fields = try CertificateFields(der: der)
        } catch {
            throw UnsuitableKey(reason: "the certificate is not an X.509 certificate in DER")
        }
        serialNumber = Array(fields.serialNumber)
        issuer = Array(fields.issuer)
        subject = Array(fields.subject)
        publicKey = try SubjectPublicKeyInfo(der: Array(fields.subjectPublicKeyInfo))
    }
}

extension OpenToken {
    /// - Throws: `importRefused` for a kind of key that this system does not use, or that the HSM token cannot use: no
    ///   later attempt would succeed.
    func requireSupport(of algorithm: KeyAlgorithm, for use: KeyUse) throws(WorkerFailure) {
        switch (use, algorithm) {
        case (.processing, _), (.identity, .rsa), (.service, .ec), (.googlePay, .ec): break
        case (.identity, .ec):
            throw WorkerFailure(
                .importRefused, "An identity key is RSA with 2048 bits: Apple certifies no other for that use.")
        case (.service, .rsa):
            throw WorkerFailure(
                .importRefused, "A service key is EC on P-256: Apple's API accepts signatures by ES256 only.")
        case (.googlePay, .rsa):
            throw WorkerFailure(
                .importRefused, "A Google Pay key is EC on P-256: Google encrypts to no other.")
        }
        if let lack = tiers.unsupportedReason(for: algorithm, use) {
            let key = use == .identity ? "an identity key" : algorithm == .ec ? "an EC key" : "an RSA key"
            throw WorkerFailure(
                .importRefused,
                "\(lack), so it takes no key for that: \(key) needs another HSM token than \"\(description.label)\". "
                    + "Its status has the reason.")
        }
    }
}

extension SubjectPublicKeyInfo.PublicKey {
    /// The attributes that the templates of both halves contain.
    var attributes: [Attribute] {
        switch self {
        case .ec: [.keyType(.ec), .ecParameters(EllipticCurve.p256Parameters)]
        case .rsa(let modulus, let publicExponent):
            [.keyType(.rsa), .modulus(modulus), .publicExponent(publicExponent)]
        }
    }

    var publicAttributes: [Attribute] {
        guard case .ec(let point) = self else { return attributes }
        return attributes + [.ecPoint(EllipticCurve.attributeValue(forPoint: point))]
    }
}
