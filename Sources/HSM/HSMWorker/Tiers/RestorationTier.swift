import Encodings
import KeyRestoration
import KeyTypes
import PKCS11
import SecretMemory
import WorkerProtocol

// Unsafe: The secret's pointer is used only within the closure, which copies what the answer contains.

/// One way to restore a transaction's symmetric key with the merchant's private key in the HSM token, and to open the
/// payment data with it. Tiers differ in what leaves the HSM token. The frames between daemon and worker are the same
/// for all tiers.
///
/// ``TierSelection`` chooses one tier for each version of payment tokens, by trying each tier with a ``TestKeyPair``.
protocol RestorationTier: Sendable {
    var scheme: RestorationScheme { get }
    var protection: ProtectionTier { get }
    /// The function that the HSM token must have, by its name in the standard. Messages to operators contain it.
    var requirement: String { get }
    /// The form of the parameters that the HSM token gets for AES-GCM; nil if this process does the AES-GCM.
    var parameterForm: Mechanism.GCMParameterForm? { get }

    /// Opens the payment data. Leaves no object in the HSM token, even if it throws, except the session's `keptObject`,
    /// the substitute key of ``UnwrappedKeyTier``.
    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8]
}

extension RestorationTier {
    var parameterForm: Mechanism.GCMParameterForm? { nil }
}

enum RestorationError: Error {
    /// The point, the wrapped key or the tag is wrong. This process found the fault itself, so the input is refused
    /// without another attempt.
    case input
    /// The input is wrong or the HSM token fails. The return value does not distinguish these causes, so the caller
    /// repeats the call before it refuses the input.
    ///
    /// The associated value is nil if the HSM token unwrapped the key and this process then found the tag wrong. The
    /// input is then certainly wrong, but the call is repeated nevertheless. An answer without repetition would take
    /// less time than the answer to a wrong padding, and a caller could distinguish the two.
    case refused(CallError?)
    /// The call failed for a reason other than the input.
    case hsmToken(CallError)

    /// Makes a call into the library, and throws its failure as `hsmToken`.
    static func throwingAsHSMTokenError<Value: ~Copyable>(
        _ call: () throws(CallError) -> Value
    ) throws(RestorationError) -> Value {
        do {
            return try call()
        } catch {
            throw .hsmToken(error)
        }
    }
}

/// A private key of the HSM token that passed its tests.
struct PrivateKeyEntry: Sendable {
    let publicKey: SubjectPublicKeyInfo
    /// The key's use, from its attributes in the HSM token.
    var use = KeyUse.processing
    /// The handle of the stored private key object.
    let object: ObjectHandle
    /// The object that operations use: the stored one, or a copy of it in the session's memory, which spares some HSM
    /// tokens an access to their storage. The copy has the same protection and rights as the stored object.
    var working: ObjectHandle

    /// The RSA modulus, big-endian; empty for EC.
    var modulus: [UInt8] {
        if case .rsa(let modulus, _) = publicKey.key { modulus } else { [] }
    }
}

/// The symmetric key of one transaction, restored inside the HSM token, which it never leaves.
enum TransactionKey {
    /// The attributes of the key: an AES key as a session object, sensitive and non-extractable, for decryption only.
    static let attributes: [Attribute] = [
        .objectClass(.secretKey), .keyType(.aes), .token(false), .private(true), .sensitive(true), .extractable(false),
        .decrypt(true),
    ]

    /// The template of an intermediate value, from which the key is derived: sensitive and non-extractable as the key.
    static func intermediate(_ count: Int) -> Template {
        [
            .objectClass(.secretKey), .keyType(.genericSecret), .token(false), .private(true), .sensitive(true),
            .extractable(false), .derive(true), .valueLength(count),
        ]
    }

    /// Opens payment data with a key in the HSM token, and always destroys the key.
    static func open(
        _ ciphertext: [UInt8], consuming key: ObjectHandle, _ form: Mechanism.GCMParameterForm,
        in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let result = decrypt(ciphertext, key, form, &session)
        session.destroyTryingTwice(key)
        return try result.get()
    }

    static func decrypt(
        _ ciphertext: [UInt8], _ key: ObjectHandle, _ form: Mechanism.GCMParameterForm, _ session: inout Session
    ) -> Result<[UInt8], RestorationError> {
        guard ciphertext.count >= GCM.tagByteCount else { return .failure(.input) }
        do throws(CallError) {
            let plaintext = try session.decrypt(
                ciphertext, .aesGCM(initializationVector: GCM.paymentTokenVector, form: form), key: key,
                capacity: ciphertext.count)
            guard plaintext.count == ciphertext.count - GCM.tagByteCount else {
                return .failure(
                    .hsmToken(CallError(call: "C_Decrypt", cause: .implausible("a plaintext of another size"))))
            }
            return .success(plaintext.withBytes { bytes in bytes.array })
        } catch {
            return .failure(error.mayBeCausedByInput ? .refused(error) : .hsmToken(error))
        }
    }
}

extension RawSpan {
    /// A copy of the payment data in ordinary memory, for the answer to the daemon. From here on, the daemon protects
    /// the payment data.
    var array: [UInt8] {
        unsafe withUnsafeBytes { unsafe Array($0) }
    }
}

extension Session {
    /// Derives a key, and throws a failure as `RestorationError.hsmToken`.
    mutating func derive(
        _ mechanism: Mechanism, from base: ObjectHandle, _ template: Template
    ) throws(RestorationError) -> ObjectHandle {
        try RestorationError.throwingAsHSMTokenError { () throws(CallError) in
            try deriveKey(mechanism, from: base, template)
        }
    }

    /// Destroys objects, best effort: those that remain end with the session.
    mutating func destroy(_ objects: [ObjectHandle]) {
        for object in objects { try? destroyObject(object) }
    }

    /// Destroys an object that may be gone already: with another session, or under another handle, since some libraries
    /// may show an object under two.
    /// - Returns: false if the object was gone.
    @discardableResult
    mutating func destroyIfPresent(_ object: ObjectHandle) throws(CallError) -> Bool {
        do throws(CallError) {
            try destroyObject(object)
            return true
        } catch {
            guard error.isStaleHandle else { throw error }
            return false
        }
    }

    /// Destroys a key, in up to two attempts. A key that cannot be destroyed occupies memory of the HSM token until the
    /// session ends. It opens no other data, so the payment data is still returned.
    mutating func destroyTryingTwice(_ key: ObjectHandle) {
        if (try? destroyObject(key)) == nil { try? destroyObject(key) }
    }
}

/// EC_v1, tier A: ECDH and the one-step KDF are one derivation inside the HSM token, whose result is the AES key.
///
/// PKCS#11 v3.0 §2.3.1: CKD_SHA256_KDF_SP800 hashes counter ‖ Z ‖ the shared data. So Apple's OtherInfo is passed as
/// the shared data.
struct OneStepDerivationTier: RestorationTier {
    let scheme = RestorationScheme.ecV1
    let protection = ProtectionTier.a
    let requirement = "CKM_ECDH1_DERIVE with CKD_SHA256_KDF_SP800"
    let form: Mechanism.GCMParameterForm
    var parameterForm: Mechanism.GCMParameterForm? { form }

    private static let template = Template(TransactionKey.attributes + [.valueLength(32)])

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let point = try P256Point(checking: input.keyMaterial)
        let symmetricKey = try session.derive(
            .ecdh1Derive(.oneStepSHA256, sharedData: input.otherInfo, publicPoint: point.bytes), from: key.working,
            Self.template)
        return try TransactionKey.open(input.ciphertext, consuming: symmetricKey, form, in: &session)
    }
}

/// EC_v1, tier B: the HSM token does the one-step KDF (SP 800-56A §5.8.2.1) in steps, by older mechanisms of PKCS#11.
/// The KDF is SHA-256 over 00 00 00 01 ‖ Z ‖ OtherInfo. Z, the raw shared secret, is a sensitive object from the start.
struct ConcatenationTier: RestorationTier {
    let scheme = RestorationScheme.ecV1
    let protection = ProtectionTier.b
    let requirement = "CKM_CONCATENATE_DATA_AND_BASE, CKM_CONCATENATE_BASE_AND_DATA and CKM_SHA256_KEY_DERIVATION"
    let form: Mechanism.GCMParameterForm
    var parameterForm: Mechanism.GCMParameterForm? { form }

    private static let counter: [UInt8] = [0, 0, 0, 1]
    /// The size of Z, the x coordinate of a point on P-256.
    private static let secretByteCount = 32

    private static let secretTemplate = TransactionKey.intermediate(secretByteCount)
    private static let countedTemplate = TransactionKey.intermediate(counter.count + secretByteCount)
    private static let keyTemplate = Template(TransactionKey.attributes + [.valueLength(32)])

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let point = try P256Point(checking: input.keyMaterial)
        let symmetricKey = try restore(input, point, key.working, &session)
        return try TransactionKey.open(input.ciphertext, consuming: symmetricKey, form, in: &session)
    }

    private func restore(
        _ input: Decryption, _ point: P256Point, _ key: ObjectHandle, _ session: inout Session
    ) throws(RestorationError) -> ObjectHandle {
        var intermediates: [ObjectHandle] = []
        defer { session.destroy(intermediates) }
        let secret = try session.derive(
            .ecdh1Derive(.null, publicPoint: point.bytes), from: key, Self.secretTemplate)
        intermediates.append(secret)
        let counted = try session.derive(.concatenateDataAndBase(Self.counter), from: secret, Self.countedTemplate)
        intermediates.append(counted)
        let whole = try session.derive(
            .concatenateBaseAndData(input.otherInfo), from: counted,
            TransactionKey.intermediate(Self.counter.count + Self.secretByteCount + input.otherInfo.count))
        intermediates.append(whole)
        return try session.derive(.sha256KeyDerivation, from: whole, Self.keyTemplate)
    }
}

/// EC_v1 and ECv2, tier C: the HSM token does the ECDH. The shared secret is read once; key derivation and decryption
/// take place in this process's wiped memory.
struct ECDHSecretTier: RestorationTier {
    var scheme = RestorationScheme.ecV1
    let protection = ProtectionTier.c
    let requirement = "CKM_ECDH1_DERIVE with CKD_NULL"

    /// The size of Z, the x coordinate of a point on P-256.
    private static let secretByteCount = 32
    private static let template: Template = [
        .objectClass(.secretKey), .keyType(.genericSecret), .token(false), .private(true), .sensitive(false),
        .extractable(true), .valueLength(secretByteCount),
    ]

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let point = try P256Point(checking: input.keyMaterial)
        let object = key.working
        let secret = try RestorationError.throwingAsHSMTokenError { () throws(CallError) in
            try session.deriveSecret(
                .ecdh1Derive(.null, publicPoint: point.bytes), from: object, Self.template, count: Self.secretByteCount)
        }
        do throws(RestorationFailure) {
            if scheme == .ecV2 { return try GooglePayMessage.open(input.ciphertext, z: secret, point: point) }
            let symmetricKey = try OneStepKDF.sha256(z: secret, otherInfo: input.otherInfo)
            return try GCM.open(input.ciphertext, key: symmetricKey)
        } catch {
            throw .input
        }
    }
}

extension P256Point {
    /// Checks that the point is on the curve, which some HSM tokens do not check. Answers to points off the curve would
    /// reveal the private key bit by bit.
    init(checking bytes: [UInt8]) throws(RestorationError) {
        do {
            try self.init(uncompressed: bytes)
        } catch {
            throw .input
        }
    }
}

extension RestorationScheme {
    var name: String {
        switch self {
        case .ecV1: "EC_v1"
        case .rsaV1: "RSA_v1"
        case .ecV2: "ECv2"
        }
    }

    var algorithm: KeyAlgorithm {
        switch self {
        case .ecV1, .ecV2: .ec
        case .rsaV1: .rsa
        }
    }
}
