internal import CPKCS11
public import SecretMemory

// C_GenerateKeyPair (PKCS#11 v2.40 base §5.13).
extension Session {
    /// Makes a key pair inside the HSM token.
    public mutating func generateKeyPair(
        _ mechanism: Mechanism, publicKey publicTemplate: Template, privateKey privateTemplate: Template
    ) throws(CallError) -> (publicKey: ObjectHandle, privateKey: ObjectHandle) {
        var publicKey: CK_OBJECT_HANDLE = 0
        var privateKey: CK_OBJECT_HANDLE = 0
        try unsafe module.call("C_GenerateKeyPair", module.functions.C_GenerateKeyPair) { generate in
            unsafe mechanism.withCMechanism { mechanism in
                unsafe publicTemplate.withCAttributes { publicAttributes, publicCount in
                    unsafe privateTemplate.withCAttributes { privateAttributes, privateCount in
                        unsafe generate(
                            handle, mechanism, publicAttributes, publicCount, privateAttributes, privateCount,
                            &publicKey, &privateKey)
                    }
                }
            }
        }
        return (ObjectHandle(rawValue: publicKey), ObjectHandle(rawValue: privateKey))
    }
}

// C_DeriveKey (PKCS#11 v2.40 base §5.13).
extension Session {
    /// Derives a key inside the HSM token. The caller must destroy the key.
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

    /// Derives a secret, reads it into secret memory and always destroys it in the HSM token.
    /// - Parameters:
    ///   - template: It must make the secret an extractable, non-sensitive session object.
    ///   - count: The exact size in bytes.
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

// C_UnwrapKey (PKCS#11 v2.40 base §5.13).
extension Session {
    /// Unwraps a key into a new key object, which need not leave the HSM token. The caller must destroy the object.
    public mutating func unwrapKey(
        _ wrappedKey: [UInt8], _ mechanism: Mechanism, with unwrappingKey: ObjectHandle, _ template: Template
    ) throws(CallError) -> ObjectHandle {
        var key: CK_OBJECT_HANDLE = 0
        try unsafe module.call("C_UnwrapKey", module.functions.C_UnwrapKey) { unwrap in
            unsafe mechanism.withCMechanism { mechanism in
                unsafe wrappedKey.withMutableCopy { wrapped, wrappedCount in
                    unsafe template.withCAttributes { attributes, count in
                        unsafe unwrap(
                            handle, mechanism, unwrappingKey.rawValue, wrapped, wrappedCount, attributes, count, &key)
                    }
                }
            }
        }
        return ObjectHandle(rawValue: key)
    }
}
