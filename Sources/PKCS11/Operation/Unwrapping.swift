internal import CPKCS11

// C_UnwrapKey (PKCS#11 v2.40 base §5.13).
extension Session {
    /// Opens a wrapped key into a new key object that need not leave the token. The caller destroys it.
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
