internal import CPKCS11

// C_VerifyInit and C_Verify (PKCS#11 v2.40 base §5.12).
extension Session {
    /// Whether `signature` is `data`'s under a public key in the token.
    public mutating func isValid(
        _ signature: [UInt8], of data: [UInt8], _ mechanism: Mechanism, key: ObjectHandle
    ) throws(CallError) -> Bool {
        try unsafe module.call("C_VerifyInit", module.functions.C_VerifyInit) { initialize in
            unsafe mechanism.withCMechanism { unsafe initialize(handle, $0, key.rawValue) }
        }
        do {
            try unsafe module.call("C_Verify", module.functions.C_Verify) { verify in
                unsafe data.withMutableCopy { data, dataCount in
                    unsafe signature.withMutableCopy { unsafe verify(handle, data, dataCount, $0, $1) }
                }
            }
            return true
        } catch {
            if error.returnValue == .signatureInvalid || error.returnValue == .signatureLengthRange { return false }
            throw error
        }
    }
}
