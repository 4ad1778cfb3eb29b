internal import CPKCS11
public import SecretMemory

// C_DecryptInit and C_Decrypt (PKCS#11 v2.40 base §5.9).
extension Session {
    /// Decrypts in one part; the bytes go from the library straight into secret memory.
    ///
    /// What a stranger's ciphertext makes tokens return differs between them and is not told apart from the token's
    /// own trouble (SoftHSM: CKR_GENERAL_ERROR for both).
    /// - Parameter capacity: room for the plaintext in bytes; for RSA the size of the modulus, even where the result is
    ///   shorter: with less room the operation would stay active and the session be lost.
    public mutating func decrypt(
        _ ciphertext: [UInt8], _ mechanism: Mechanism, key: ObjectHandle, capacity: Int
    ) throws(CallError) -> SecretBytes {
        try unsafe module.call("C_DecryptInit", module.functions.C_DecryptInit) { initialize in
            unsafe mechanism.withCMechanism { unsafe initialize(handle, $0, key.rawValue) }
        }
        guard let decrypt = unsafe module.functions.C_Decrypt else {
            throw CallError(call: "C_Decrypt", cause: .missing)
        }
        var plaintext = SecretBytes(count: capacity)
        var length = CK_ULONG(capacity)
        let result = unsafe ciphertext.withMutableCopy { ciphertext, count in
            unsafe plaintext.withUnsafeMutableBytes { buffer in
                unsafe decrypt(
                    handle, ciphertext, count, buffer.baseAddress?.assumingMemoryBound(to: UInt8.self), &length)
            }
        }
        try Module.check("C_Decrypt", result)
        guard length <= capacity else {
            throw CallError(call: "C_Decrypt", cause: .implausible("more bytes than there was room for"))
        }
        plaintext.shrink(to: Int(length))
        return plaintext
    }
}
