internal import CPKCS11
public import SecretMemory

// C_DeriveKey (PKCS#11 v2.40 base §5.13).
extension Session {
    /// Derives a key inside the token. The caller destroys it.
    public mutating func deriveKey(
        _ mechanism: Mechanism, from base: ObjectHandle, _ template: Template
    ) throws(CallError) -> ObjectHandle {
        var key: CK_OBJECT_HANDLE = 0
        try unsafe module.call("C_DeriveKey", module.functions.C_DeriveKey) { derive in
            unsafe mechanism.withCMechanism { mechanism in
                unsafe template.withCAttributes { attributes, count in
                    unsafe derive(handle, mechanism, base.rawValue, attributes, count, &key)
                }
            }
        }
        return ObjectHandle(rawValue: key)
    }

    /// Derives a secret, reads it into secret memory and destroys it in the token, whatever happens.
    /// - Parameters:
    ///   - template: must make the secret a session object that is not sensitive and extractable.
    ///   - count: the exact size in bytes.
    public mutating func deriveSecret(
        _ mechanism: Mechanism, from base: ObjectHandle, _ template: Template, count: Int
    ) throws(CallError) -> SecretBytes {
        let key = try deriveKey(mechanism, from: base, template)
        let secret: SecretBytes
        do throws(CallError) {
            secret = try secretValue(of: key, count: count)
        } catch {
            try? destroyObject(key)
            throw error
        }
        try destroyObject(key)
        return secret
    }
}
