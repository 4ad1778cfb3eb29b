import KeyRestoration
import KeyTesting
import KeyTypes
import PKCS11
import WorkerProtocol

/// RSA_v1, tier A: the HSM token opens the wrapped key (RSA-OAEP with SHA-256) into an AES key that never leaves it.
///
/// ``WrappedKey`` explains why all failures make the same calls. They are, in this order: C_UnwrapKey of the input,
/// C_GetAttributeValue, C_DecryptInit and C_Decrypt, C_DestroyObject, and C_UnwrapKey once more. Of the two C_UnwrapKey
/// calls, one succeeds and one fails in either case. After a wrong padding the session's substitute key is used instead
/// of the missing key, and the second call makes the next substitute. After a wrong tag, this process gives the second
/// call a wrong padding.
struct UnwrappedKeyTier: RestorationTier {
    let scheme = RestorationScheme.rsaV1
    let protection = ProtectionTier.a
    let requirement = "C_UnwrapKey by CKM_RSA_PKCS_OAEP with SHA-256"
    let form: Mechanism.GCMParameterForm
    var parameterForm: Mechanism.GCMParameterForm? { form }

    /// The template omits CKA_VALUE_LEN, because the wrapped bytes determine the key's size (PKCS#11 v2.40 base §5.13,
    /// C_UnwrapKey).
    private static let template = Template(TransactionKey.attributes)

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        try WrappedKey.checkRange(input.keyMaterial, modulus: key.modulus)
        guard input.ciphertext.count >= GCM.tagByteCount else { throw .input }
        let substitute = try makeSubstitute(key, &session)
        var symmetricKey = substitute
        var paddingError: CallError?
        do throws(CallError) {
            symmetricKey = try session.unwrapKey(input.keyMaterial, .rsaOAEPSHA256, with: key.working, Self.template)
        } catch {
            guard error.mayBeCausedByInput else {
                // If the session or the login was lost, the substitute is gone too, and its handle must not be used
                // again.
                session.dropKeptObject()
                throw .hsmToken(error)
            }
            paddingError = error
        }
        let result = decrypt(input.ciphertext, symmetricKey, substitute, &session)
        session.destroyTryingTwice(symmetricKey)
        if paddingError != nil { session.keptObject = nil }
        switch result {
        case .success(let plaintext) where paddingError == nil: return plaintext
        case .failure(.hsmToken(let error)) where paddingError == nil || !error.isStaleHandle: throw .hsmToken(error)
        case .success, .failure: break
        }
        unwrapOnceMore(key, succeeding: paddingError != nil, &session)
        if let paddingError { throw .refused(paddingError) }
        _ = try result.get()
        throw .refused(nil)
    }

    /// - Returns: The payment data. A symmetric key of any size other than Apple's 16 bytes is a failure, even if it
    ///   opens the data: the other tiers accept no such key either.
    private func decrypt(
        _ ciphertext: [UInt8], _ key: ObjectHandle, _ substitute: ObjectHandle, _ session: inout Session
    ) -> Result<[UInt8], RestorationError> {
        let hasApplesSize: Bool
        do throws(CallError) {
            hasApplesSize = try session.byteCount(of: key) == WrappedKey.byteCount
        } catch {
            return .failure(.hsmToken(error))
        }
        let result = TransactionKey.decrypt(ciphertext, hasApplesSize ? key : substitute, form, &session)
        if case .success = result, !hasApplesSize { return .failure(.refused(nil)) }
        return result
    }

    /// Returns the session's substitute key, and unwraps a new one if the session has none. The substitute key opens no
    /// data, and it is unwrapped in the same way as real keys.
    private func makeSubstitute(
        _ key: borrowing PrivateKeyEntry, _ session: inout Session
    ) throws(RestorationError) -> ObjectHandle {
        if let kept = session.keptObject { return kept }
        guard let wrapped = TestTransaction.wrappedKey(for: key.publicKey, isPaddedWell: true) else { throw .input }
        let object = key.working
        let made = try RestorationError.throwingAsHSMTokenError { () throws(CallError) in
            try session.unwrapKey(wrapped, .rsaOAEPSHA256, with: object, Self.template)
        }
        session.keptObject = made
        return made
    }

    private func unwrapOnceMore(_ key: borrowing PrivateKeyEntry, succeeding: Bool, _ session: inout Session) {
        guard let wrapped = TestTransaction.wrappedKey(for: key.publicKey, isPaddedWell: succeeding),
            let made = try? session.unwrapKey(wrapped, .rsaOAEPSHA256, with: key.working, Self.template)
        else { return }
        if session.keptObject == nil {
            session.keptObject = made
        } else {
            // The wrong padding was accepted, because this HSM token does not check it. The session needs only one
            // substitute.
            session.destroyTryingTwice(made)
        }
    }
}

extension Session {
    /// Destroys the session's kept object, best effort: an object that remains ends with the session.
    mutating func dropKeptObject() {
        if let keptObject { try? destroyObject(keptObject) }
        keptObject = nil
    }

    /// Reads a secret key's size in bytes (CKA_VALUE_LEN). Throws if the HSM token does not report it.
    fileprivate mutating func byteCount(of key: ObjectHandle) throws(CallError) -> Int {
        guard let count = try attributes([.valueLength], of: key).number(.valueLength) else {
            throw CallError(call: "C_GetAttributeValue", cause: .implausible("an AES key without CKA_VALUE_LEN"))
        }
        return Int(clamping: count)
    }
}
