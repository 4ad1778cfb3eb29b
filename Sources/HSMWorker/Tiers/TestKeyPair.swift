import PKCS11
import WorkerProtocol

/// A key pair in the token for a test, as session objects: it is never stored.
struct TestKeyPair: Sendable {
    private let publicKey: ObjectHandle
    private let privateKey: ObjectHandle
    /// nil when the token's public key cannot be read.
    let entry: PrivateKeyEntry?
    /// Whether it is the pair of ``KnownKeyPair``, and not one that the token made.
    let isKnown: Bool

    init(for scheme: RestorationScheme, in session: inout Session) throws(CallError) {
        // Tokens that take no private key from outside make one.
        if let known = try? KnownKeyPair.create(for: scheme, in: &session) {
            (publicKey, privateKey) = known
            isKnown = true
        } else {
            (publicKey, privateKey) = try Self.generate(scheme, &session)
            isKnown = false
        }
        let (privateKey, algorithm) = (privateKey, scheme.algorithm)
        do throws(CallError) {
            entry = try session.publicKey(publicKey, algorithm).map {
                PrivateKeyEntry(publicKey: $0, object: privateKey, working: privateKey)
            }
        } catch {
            for object in [publicKey, privateKey] { try? session.destroyObject(object) }
            throw error
        }
    }

    private static func generate(
        _ scheme: RestorationScheme, _ session: inout Session
    ) throws(CallError) -> (publicKey: ObjectHandle, privateKey: ObjectHandle) {
        let privateTemplate: [Attribute] = [.token(false), .private(true), .sensitive(true), .extractable(false)]
        return switch scheme {
        case .ecV1:
            try session.generateKeyPair(
                .ecKeyPairGeneration,
                publicKey: [.token(false), .private(false), .ecParameters(EllipticCurve.p256Parameters)],
                privateKey: Template(privateTemplate + [.derive(true)]))
        case .rsaV1:
            try session.generateKeyPair(
                .rsaKeyPairGeneration,
                publicKey: [
                    .token(false), .private(false), .encrypt(true),
                    .modulusBits(SubjectPublicKeyInfo.rsaModulusBits), .publicExponent([1, 0, 1]),
                ],
                privateKey: Template(privateTemplate + [.decrypt(true), .unwrap(true)]))
        }
    }

    /// Best effort: what stays ends with the session.
    func destroy(in session: inout Session) {
        session.dropKeptObject()
        for object in [publicKey, privateKey] { try? session.destroyObject(object) }
    }
}

extension Session {
    /// A public key object's key; nil when its attributes are not those of a merchant's key.
    mutating func publicKey(
        _ object: ObjectHandle, _ algorithm: KeyAlgorithm
    ) throws(CallError) -> SubjectPublicKeyInfo? {
        switch algorithm {
        case .ec:
            let values = try attributes([.ecPoint], of: object)
            guard let value = values.bytes(.ecPoint), let point = EllipticCurve.p256Point(inAttributeValue: value)
            else { return nil }
            return try? SubjectPublicKeyInfo(.ec(point: point))
        case .rsa:
            let values = try attributes([.modulus, .publicExponent], of: object)
            guard let modulus = values.bytes(.modulus), let exponent = values.bytes(.publicExponent) else { return nil }
            return try? SubjectPublicKeyInfo(
                .rsa(
                    modulus: Array(modulus.drop { $0 == 0 }), publicExponent: Array(exponent.drop { $0 == 0 })))
        }
    }
}
