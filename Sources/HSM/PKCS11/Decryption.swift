internal import CPKCS11
public import SecretMemory

// Unsafe: Cryptoki keeps no pointer after a call returns (PKCS#11 v2.40 base §5.1). The library receives the
// plaintext's capacity.

// C_DecryptInit and C_Decrypt (PKCS#11 v2.40 base §5.9).
extension Session {
    /// Decrypts in one part. The library writes the bytes straight into secret memory.
    ///
    /// The return value for a wrong ciphertext differs between HSM tokens, and some return the same value for internal
    /// faults (SoftHSM: CKR_GENERAL_ERROR for both).
    /// - Parameter capacity: Room for the plaintext in bytes; for RSA the size of the modulus, even if the result is
    ///   shorter. With less room the call fails with CKR_BUFFER_TOO_SMALL.
    public mutating func decrypt(
        _ ciphertext: [UInt8], _ mechanism: Mechanism, key: ObjectHandle, capacity: Int
    ) throws(CallError) -> SecretBytes {
        try unsafe module.call("C_DecryptInit", module.functions.C_DecryptInit) { initialize in
            unsafe mechanism.withCMechanism { unsafe initialize(handle, $0, key.rawValue) }
        }
        var plaintext = SecretBytes(count: capacity)
        let length: Int
        do throws(CallError) {
            length = try finishDecryption(of: ciphertext, into: &plaintext)
        } catch {
            // After CKR_BUFFER_TOO_SMALL the operation is still active (§5.2), and the session would accept no other. A
            // second call with a larger buffer ends it.
            if error.returnValue == .bufferTooSmall {
                var discarded = SecretBytes(count: max(ciphertext.count, 1 << 16))
                _ = try? finishDecryption(of: ciphertext, into: &discarded)
            }
            throw error
        }
        plaintext.shrink(to: length)
        return plaintext
    }

    /// Calls C_Decrypt and returns the number of bytes that it wrote.
    private mutating func finishDecryption(
        of ciphertext: [UInt8], into plaintext: inout SecretBytes
    ) throws(CallError) -> Int {
        let decrypt = try unsafe module.require("C_Decrypt", module.functions.C_Decrypt)
        var length = CK_ULONG(plaintext.count)
        let result = unsafe ciphertext.withMutableCopy { ciphertext, count in
            unsafe plaintext.withUnsafeMutableBytes { buffer in
                unsafe decrypt(
                    handle, ciphertext, count, buffer.baseAddress?.assumingMemoryBound(to: UInt8.self), &length)
            }
        }
        try Module.check("C_Decrypt", result)
        guard length <= plaintext.count else {
            throw CallError(call: "C_Decrypt", cause: .implausible("more bytes than there was room for"))
        }
        return Int(length)
    }
}
