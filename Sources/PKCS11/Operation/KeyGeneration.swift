internal import CPKCS11

// C_GenerateKey and C_GenerateKeyPair (PKCS#11 v2.40 base §5.13).
extension Session {
    /// Makes a secret key inside the token.
    public mutating func generateKey(_ mechanism: Mechanism, _ template: Template) throws(CallError) -> ObjectHandle {
        var key: CK_OBJECT_HANDLE = 0
        try unsafe module.call("C_GenerateKey", module.functions.C_GenerateKey) { generate in
            unsafe mechanism.withCMechanism { mechanism in
                unsafe template.withCAttributes { unsafe generate(handle, mechanism, $0, $1, &key) }
            }
        }
        return ObjectHandle(rawValue: key)
    }

    /// Makes a key pair inside the token.
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
