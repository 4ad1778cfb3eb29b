internal import CLibcrypto
public import SecretMemory

/// The one-step key derivation of SP 800-56A rev. 3 §5.8.2.1 (SP 800-56C rev. 2 §4) with SHA-256 as its hash.
public enum OneStepKDF {
    /// SHA-256(00 00 00 01 ‖ Z ‖ OtherInfo): one round of the KDF, 32 bytes.
    ///
    /// Apple's EC_v1 takes the whole of it as the AES-256 key. The counter comes first, unlike in ANSI X9.63's KDF.
    /// - Parameters:
    ///   - z: the shared secret with all its leading zeros: 32 bytes for P-256.
    ///   - otherInfo: the context, public.
    public static func sha256(z: borrowing SecretBytes, otherInfo: [UInt8]) throws(RestorationFailure) -> SecretBytes {
        let counter: [UInt8] = [0, 0, 0, 1]
        var key = SecretBytes(count: 32)
        let done = unsafe key.withUnsafeMutableBytes { key in
            unsafe z.withUnsafeBytes { z in
                unsafe clibcrypto_sha256(
                    counter, counter.count, z.baseAddress?.assumingMemoryBound(to: UInt8.self), z.count, otherInfo,
                    otherInfo.count, key.baseAddress?.assumingMemoryBound(to: UInt8.self))
            }
        }
        // Only for want of memory.
        guard done == 1 else { throw RestorationFailure() }
        return key
    }
}
