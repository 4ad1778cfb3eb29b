import KeyRestoration
import PKCS11
import SecretMemory

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
