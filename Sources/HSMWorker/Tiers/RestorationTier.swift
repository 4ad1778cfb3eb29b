import KeyRestoration
import PKCS11
import SecretMemory
import WorkerProtocol

/// One way to restore a transaction's symmetric key with the merchant's private key in the token, and to open the
/// payment data with it. Tiers differ in what leaves the token meanwhile; the frames do not.
protocol RestorationTier: Sendable {
    var scheme: RestorationScheme { get }
    var protection: ProtectionTier { get }
    /// The token's part, by the standard's names; for a person.
    var requirement: String { get }
    /// How AES-GCM's parameters are given to the token; nil where AES-GCM is not its part.
    var parameterForm: Mechanism.GCMParameterForm? { get }

    /// Opens the payment data. Leaves no object in the token, also when it throws, but the one that the session keeps.
    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8]
}

extension RestorationTier {
    var parameterForm: Mechanism.GCMParameterForm? { nil }
}

enum RestorationError: Error {
    /// The point, the wrapped key, or the tag is wrong: decided in this process, beyond doubt.
    case input
    /// The wrapped key or the tag is wrong, or the token in trouble: its return values do not tell, so that it is
    /// confirmed before it is believed. nil where the tag was found wrong in this process after the token had opened the
    /// wrapped key. That is confirmed too: told at once, a wrong tag would show in the time that a wrong padding takes.
    case refused(CallError?)
    /// The token did not do its part, and the input is not the reason.
    case token(CallError)
}

/// A private key of the token that passed its tests.
struct PrivateKeyEntry: Sendable {
    let publicKey: SubjectPublicKeyInfo
    /// The token's object.
    let object: ObjectHandle
    /// What operations are done with: the object, or a copy of it that lives in the session's memory and spares some
    /// tokens a look at their storage. The copy is as sensitive and non-extractable.
    var working: ObjectHandle

    /// The RSA modulus, big-endian; empty for EC.
    var modulus: [UInt8] {
        if case .rsa(let modulus, _) = publicKey.key { modulus } else { [] }
    }
}

/// A symmetric key that was restored inside the token, for one transaction, and never leaves it.
enum TransactionKey {
    /// AES, sensitive and non-extractable, a session object, for decryption only.
    static let attributes: [Attribute] = [
        .objectClass(.secretKey), .keyType(.aes), .token(false), .private(true), .sensitive(true), .extractable(false),
        .decrypt(true),
    ]

    /// Opens payment data with a key in the token, and destroys the key whatever happens.
    static func open(
        _ ciphertext: [UInt8], consuming key: ObjectHandle, _ form: Mechanism.GCMParameterForm,
        in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let result = decrypt(ciphertext, key, form, &session)
        destroy(key, &session)
        return try result.get()
    }

    /// A key that stays costs the token memory and is good for nothing else: no reason to refuse what was opened.
    static func destroy(_ key: ObjectHandle, _ session: inout Session) {
        if (try? session.destroyObject(key)) == nil { try? session.destroyObject(key) }
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
                    .token(CallError(call: "C_Decrypt", cause: .implausible("a plaintext of another size"))))
            }
            return .success(plaintext.withBytes { bytes in bytes.array })
        } catch {
            return .failure(error.mayBeCausedByInput ? .refused(error) : .token(error))
        }
    }
}

extension RawSpan {
    /// The payment data, which is the answer and no longer a secret of this process's own.
    fileprivate var array: [UInt8] {
        unsafe withUnsafeBytes { unsafe Array($0) }
    }
}

extension Session {
    /// A derivation whose failure is the token's.
    mutating func derive(
        _ mechanism: Mechanism, from base: ObjectHandle, _ template: Template
    ) throws(RestorationError) -> ObjectHandle {
        do {
            return try deriveKey(mechanism, from: base, template)
        } catch {
            throw .token(error)
        }
    }
}
