import Crypto
import Encodings
import KeyTypes
import PKCS11
import SecretMemory
import WorkerProtocol

/// A key pair in the HSM token for a test: session objects if the HSM token makes them, otherwise a stored pair
/// (``StoredTestPair``).
struct TestKeyPair: Sendable {
    enum Origin: Sendable {
        /// The published pair of ``KnownKeyPair``.
        case known
        /// A session pair that the HSM token generated.
        case generated
        /// A pair that the HSM token stores. `isNew` is true if it was made for this test.
        case stored(StoredTestPair, isNew: Bool)
    }

    private let publicKey: ObjectHandle
    private let privateKey: ObjectHandle
    let entry: PrivateKeyEntry
    let origin: Origin

    /// - Parameter makesStored: true to make a stored pair if there is none yet and the HSM token makes no session
    ///   pair.
    init(
        for scheme: RestorationScheme, use: KeyUse = .processing, makesStored: Bool = false,
        keeper: StoredTestPair.Keeper = .worker, in session: inout Session
    ) throws(CallError) {
        // Some HSM tokens accept no private key from outside, so they have to generate the test pair.
        if let known = try? KnownKeyPair.create(for: scheme, use: use, in: &session) {
            (publicKey, privateKey) = known
            origin = .known
        } else {
            let made = try Self.generated(StoredTestPair(scheme, use, keeper), scheme, use, makesStored, &session)
            (publicKey, privateKey) = (made.publicKey, made.privateKey)
            origin = made.origin
        }
        do throws(CallError) {
            guard let read = try session.publicKey(publicKey, scheme.algorithm) else {
                throw CallError(
                    call: "C_GetAttributeValue", cause: .implausible("a new key pair's public key that cannot be read"))
            }
            entry = PrivateKeyEntry(publicKey: read, use: use, object: privateKey, working: privateKey)
        } catch {
            Self.destroy(publicKey, privateKey, origin, &session)
            throw error
        }
    }

    /// True for the published pair of ``KnownKeyPair``.
    var isKnown: Bool { if case .known = origin { true } else { false } }

    private static func generated(
        _ stored: StoredTestPair, _ scheme: RestorationScheme, _ use: KeyUse, _ makesStored: Bool,
        _ session: inout Session
    ) throws(CallError) -> (publicKey: ObjectHandle, privateKey: ObjectHandle, origin: Origin) {
        do throws(CallError) {
            let pair = try generate(scheme, use, [.token(false)], &session)
            return (pair.publicKey, pair.privateKey, .generated)
        } catch {
            guard error.isAboutTemplate else { throw error }
            if let pair = try stored.find(in: &session) {
                return (pair.publicKey, pair.privateKey, .stored(stored, isNew: false))
            }
            guard makesStored else { throw error }
            let pair = try generate(scheme, use, stored.newAttributes(), &session)
            // Otherwise each opening would make another pair, since it would not find this one.
            guard try stored.find(in: &session) != nil else {
                session.destroy([pair.privateKey, pair.publicKey])
                throw CallError(
                    call: "C_GenerateKeyPair", cause: .implausible("a pair that is not found again by its CKA_ID"))
            }
            return (pair.publicKey, pair.privateKey, .stored(stored, isNew: true))
        }
    }

    private static func generate(
        _ scheme: RestorationScheme, _ use: KeyUse, _ common: [Attribute], _ session: inout Session
    ) throws(CallError) -> (publicKey: ObjectHandle, privateKey: ObjectHandle) {
        let (mechanism, parameters) = scheme.algorithm.generation
        let (publicUsage, privateUsage) = usage(scheme.algorithm, use)
        // The second form is for HSM tokens that unwrap with no key that decrypts.
        let forms = [privateUsage] + (privateUsage.contains(.unwrap(true)) ? [[.decrypt(true)]] : [])
        return try firstAccepted(of: forms) { (privateUsage) throws(CallError) in
            try session.generateKeyPair(
                mechanism,
                publicKey: Template(common + [.private(false)] + publicUsage + parameters),
                privateKey: Template(common + [.private(true), .sensitive(true), .extractable(false)] + privateUsage))
        }
    }

    /// The attributes that a test needs and no others, because some HSM tokens reject more.
    static func usage(
        _ algorithm: KeyAlgorithm, _ use: KeyUse
    ) -> (publicKey: [Attribute], privateKey: [Attribute]) {
        switch (use, algorithm) {
        case (.identity, _), (.service, _): ([.verify(true)], [.sign(true)])
        case (.processing, .ec), (.googlePay, .ec): ([], [.derive(true)])
        case (.processing, .rsa), (.googlePay, .rsa): ([.encrypt(true)], [.decrypt(true), .unwrap(true)])
        }
    }

    /// Destroys the pair unless it is a stored one, best effort: a remaining object ends with the session.
    func destroy(in session: inout Session) {
        session.dropKeptObject()
        Self.destroy(publicKey, privateKey, origin, &session)
    }

    private static func destroy(
        _ publicKey: ObjectHandle, _ privateKey: ObjectHandle, _ origin: Origin, _ session: inout Session
    ) {
        if case .stored = origin { return }
        session.destroy([publicKey, privateKey])
    }
}

extension Session {
    /// The key in a public key object; nil unless it is a P-256 or RSA-2048 key.
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

/// Published key pairs for the known-answer tests, and for nothing else. The RSA pair is published because generating
/// one in the HSM token would take some tenths of a second at every start of a worker. The EC pair is published because
/// the shared secret can be chosen only if both private keys are known.
enum KnownKeyPair {
    /// PKCS#8 in base64; not a secret.
    private static let rsa = """
        MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDI4/Vz5+QEqR98NN9TW2BaXUo0RaZH6/8RUtDvMG+oX6K9OWVp/c8aCyVE\
        tJR8fZ0FNp6FQV6Y0MqTAD4a7wAzV+n36o9gDCdmMtsYVSdxGlIBNt3JzvPRg4YKZ3XyJobGrJnycI33H6yT2KmlG0iCUWOk0msCRN9ZABMb\
        yVEeQLdiA6iNd1wVxv7LNcGcS4XwSzDlszqQ+hGjL28ur4OgdkEiSsndswxNa91lkmVi+/Kcn4FsKllRfBSeZRMrSk12XLzq36dXzdjzq8mR\
        F9zslMg1MgwUh47OoqOoISP/MeWwRbIS/o4CadafHhmCXkG2Kx9sDa5XZNUbMpXXiKknAgMBAAECggEAA55bkwFn0Y+sUgPvy+QW+bm5dvSU\
        OLJvD0RTICPatwk1+LuacIzSWLE/tBuemxl2JRxlQZg6WH1WUMyN0dVhRwt72uveNkgxw30CBk+uXLKxLHVtDFAOg0Ufuns/nCOGhPih80SE\
        wiFPbgBWmfNCXJqTtWnW5J0R+tvt/C+lpupSV9H8eH1ryGvvlY9teLvgg2KTxjDp80nMUzgdYXXWH4kjGFobUN3Fps5DJjtsKQI3HdBhfrI9\
        SOZBHxYtkVrnMfQ1bhRJM03138Bz7pUBm2BOUCCE4B4bu+lYg+Aj6n4F5v0O2K7q26192boQMUr5gTgq6Sp4AMEnLgdljskJ8QKBgQDjYF0w\
        EXm5MVwPObFfkB0IPTkYPcklhB0UuTMgfTgGrEBjB+3ZOzbyvKEXxBK8+5YTP5eCSfliyqgmPW7S0XxRilI9KN5ETeMsl0cy9HvP87YhLYyN\
        itn0rG76ASGb9aYNlSeBS4dLgj1c1x7vQ3F0CZq2a3dULfj2fOoVtPX89wKBgQDiLgjcWi88yV8dpsQ9lJ4ecTwh0G0IiYCVCR4djww77Kwi\
        hhjrOBjiQAgLPkVYuUne7F/dgQP4H3ykP4A/XiXopxnrzHnmG/1IxwQMCErnsrw9U5U6vYKyTxLu4+a/FxzxzQ7UWHx0kvbn5bmSQpNJBha5\
        mdK12BDph7alLZyZUQKBgDFLMui44SrFCLBEUa/mDmU64KXgvzri6WsUu4DPpNXNgif2EBqIO+FkA4ijeWx/HooNv0r/vpEsXkfsCZqqz8jd\
        s/aOZaFpQVbpdQYW+sCalWGb/lyxPY9N0sFgfWjSWK2ZKHdfaHV2RtdZy9sTRAVkD6Z8peIaFV9atWT/VlUBAoGAJSGXlM09agZJFi4Vk2J9\
        ntPKImb8L2WbdVwc1I9yW7gb/kLzflIkS6hlaascaVdp2C4IAu42P5qztKc0H7MOGCauq7ZS4MMBjtwVPwBxg54lJxA8tHr+JNW0bwF9FSvv\
        NYcLgzLPo7eozyM4ltlVIqzcODYXkIDbLet4wZ8+UTECgYEAxQEpHyMEq634bq9tncfd9L1hPVTRK8Uniy+Y1Gt3v2wmdiJUM4T9Pk6qukF3\
        HXeg5gZolBWWNXAk+SnCn5yZYUNcFACkjVbceCm0ECzoObHWiSnSOv/DKhpXi5Iut3wHHDLO0l92rlqn06FWcSSsuqlRrhtWklZZdhc7tljw\
        xqw=
        """

    private static let ec = """
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgNSU87biSOYXHmxwTvGlu8u/wOHX8tTBb0QhsONm3CZWhRANCAAT6QzfsOhZD\
        /hyrEn5MRCDB75bOQI+jDXwK5ifzYG6Rcyc8IBxcfyXs6DyeVgZyNRfaaPyLgJzXOnElFgGAb/X8
        """

    /// An ephemeral private key whose shared secret with the EC pair begins with a zero byte. One shared secret in 256
    /// begins so, and some HSM tokens strip that byte.
    static var ephemeralForLeadingZero: P256.KeyAgreement.PrivateKey? {
        Base64.decode("3MJVrrtC56QFSWyJjjReLRm6m8q8lC2BPQWR49tyg58=").flatMap {
            try? P256.KeyAgreement.PrivateKey(rawRepresentation: $0)
        }
    }

    /// Creates both halves as session objects. nil if the constants cannot be parsed; a test ensures that they can.
    static func create(
        for scheme: RestorationScheme, use: KeyUse = .processing, in session: inout Session
    ) throws(CallError) -> (publicKey: ObjectHandle, privateKey: ObjectHandle)? {
        let text = scheme.algorithm == .ec ? ec : rsa
        guard let pkcs8 = Base64.decode(text),
            let key = try? PrivateKeyInfo(pkcs8: SecretBytes(copying: pkcs8))
        else { return nil }
        return try session.createTestPair(key, TestKeyPair.usage(scheme.algorithm, use))
    }
}

extension Session {
    /// Creates both halves of a known pair as session objects.
    mutating func createTestPair(
        _ key: borrowing PrivateKeyInfo, _ usage: (publicKey: [Attribute], privateKey: [Attribute])
    ) throws(CallError) -> (publicKey: ObjectHandle, privateKey: ObjectHandle) {
        let publicKey = try createObject(
            Template(
                [.objectClass(.publicKey), .token(false), .private(false)] + usage.publicKey
                    + key.publicKey.publicAttributes))
        do throws(CallError) {
            let privateKey = try createObject(
                Template(
                    [
                        .objectClass(.privateKey), .token(false), .private(true), .sensitive(true),
                        .extractable(false),
                    ] + usage.privateKey + key.publicKey.attributes), secrets: key.secrets)
            return (publicKey, privateKey)
        } catch {
            try? destroyObject(publicKey)
            throw error
        }
    }
}
