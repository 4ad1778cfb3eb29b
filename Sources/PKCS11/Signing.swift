internal import CPKCS11

// C_SignInit and C_Sign (PKCS#11 v2.40 base §5.11).
extension Session {
    /// Signs in one part.
    /// - Parameters:
    ///   - data: what the mechanism takes: a hash for ``Mechanism/ecdsa``, the message for
    ///     ``Mechanism/rsaPKCS1SHA256``.
    ///   - capacity: room for the signature in bytes.
    /// - Returns: the signature as the token gives it; ECDSA's is r ‖ s.
    public mutating func sign(
        _ data: [UInt8], _ mechanism: Mechanism, key: ObjectHandle, capacity: Int = 512
    ) throws(CallError) -> [UInt8] {
        try unsafe module.call("C_SignInit", module.functions.C_SignInit) { initialize in
            unsafe mechanism.withCMechanism { unsafe initialize(handle, $0, key.rawValue) }
        }
        var signature = [UInt8](repeating: 0, count: capacity)
        var length = CK_ULONG(capacity)
        try unsafe module.call("C_Sign", module.functions.C_Sign) { sign in
            unsafe data.withMutableCopy { unsafe sign(handle, $0, $1, &signature, &length) }
        }
        guard length <= signature.count else {
            throw CallError(call: "C_Sign", cause: .implausible("more bytes than there was room for"))
        }
        signature.removeLast(signature.count - Int(length))
        return signature
    }
}

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

// C_GenerateRandom (PKCS#11 v2.40 base §5.14).
extension Session {
    /// Random bytes from the token.
    public mutating func randomBytes(count: Int) throws(CallError) -> [UInt8] {
        guard count > 0 else { return [] }
        var bytes = [UInt8](repeating: 0, count: count)
        try unsafe module.call("C_GenerateRandom", module.functions.C_GenerateRandom) {
            unsafe $0(handle, &bytes, CK_ULONG(count))
        }
        return bytes
    }
}
