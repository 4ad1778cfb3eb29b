import KeyRestoration
import PKCS11
import WorkerProtocol

/// RSA_v1, tier A: the token opens the wrapped key (RSA-OAEP with SHA-256) into an AES key that never leaves it.
struct UnwrappedKeyTier: RestorationTier {
    let scheme = RestorationScheme.rsaV1
    let protection = ProtectionTier.a
    let demand = "C_UnwrapKey by CKM_RSA_PKCS_OAEP with SHA-256"
    let form: Mechanism.GCMParameterForm
    var parameterForm: Mechanism.GCMParameterForm? { form }

    /// Without CKA_VALUE_LEN: the wrapped key says its size (PKCS#11 v2.40 base §5.13, C_UnwrapKey).
    private static let template = Template(KeyInToken.attributes)
    private static let stranger = Template(KeyInToken.attributes + [.valueLength(WrappedKey.byteCount)])

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        try WrappedKey.checkRange(input.keyMaterial, modulus: key.modulus)
        let symmetricKey: ObjectHandle
        do throws(CallError) {
            symmetricKey = try session.unwrapKey(
                input.keyMaterial, .rsaOAEPSHA256, with: key.working, Self.template)
        } catch {
            guard error.call == "C_UnwrapKey", let value = error.returnValue, WrappedKey.saysPadding.contains(value)
            else { throw .token(error) }
            openWithNothing(input.ciphertext, &session)
            throw .refused(error)
        }
        // Apple's have 16 bytes. Another size would open what was sealed with it; no tier takes it.
        guard try session.byteCount(of: symmetricKey) == WrappedKey.byteCount else {
            try? session.destroyObject(symmetricKey)
            throw .refused(nil)
        }
        return try KeyInToken.open(input.ciphertext, consuming: symmetricKey, form, in: &session)
    }

    /// Does what a wrong tag makes the token do, with a key that nobody knows, so that a wrong padding takes as long:
    /// a Manger oracle otherwise.
    private func openWithNothing(_ ciphertext: [UInt8], _ session: inout Session) {
        guard let key = try? session.generateKey(.aesKeyGeneration, Self.stranger) else { return }
        _ = try? session.byteCount(of: key)
        _ = try? KeyInToken.open(ciphertext, consuming: key, form, in: &session)
    }
}

extension Session {
    /// A secret key's size; the key is destroyed when the token does not say it.
    fileprivate mutating func byteCount(of key: ObjectHandle) throws(RestorationError) -> Int {
        do throws(CallError) {
            guard let count = try attributes([.valueLength], of: key).number(.valueLength) else {
                throw CallError(call: "C_GetAttributeValue", cause: .implausible("an AES key without CKA_VALUE_LEN"))
            }
            return Int(clamping: count)
        } catch {
            try? destroyObject(key)
            throw .token(error)
        }
    }
}
