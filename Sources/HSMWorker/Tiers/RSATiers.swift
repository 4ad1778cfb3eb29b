import KeyRestoration
import PKCS11
import SecretMemory
import WorkerProtocol

/// RSA_v1, tier C: the token opens the wrapped key (RSA-OAEP with SHA-256), AES-GCM is done in this process's wiped
/// memory.
struct OAEPInTokenTier: RestorationTier {
    let scheme = RestorationScheme.rsaV1
    let protection = ProtectionTier.c
    let requirement = "C_Decrypt by CKM_RSA_PKCS_OAEP with SHA-256"

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        try WrappedKey.checkRange(input.keyMaterial, modulus: key.modulus)
        let substitute = WrappedKey.substitute()
        let message: SecretBytes
        do throws(CallError) {
            message = try session.decrypt(
                input.keyMaterial, .rsaOAEPSHA256, key: key.working, capacity: key.modulus.count)
        } catch {
            guard error.mayBeCausedByInput else { throw .token(error) }
            WrappedKey.fail(input.ciphertext, with: substitute)
            throw .refused(error)
        }
        do throws(RestorationFailure) {
            return try WrappedKey.open(input.ciphertext, with: message, or: substitute)
        } catch {
            throw .refused(nil)
        }
    }
}

/// RSA_v1, tier C, for tokens without OAEP-SHA256: the token does the bare RSA operation, the padding is taken off in
/// constant time in this process's wiped memory.
struct BareRSATier: RestorationTier {
    let scheme = RestorationScheme.rsaV1
    let protection = ProtectionTier.c
    let requirement = "CKM_RSA_X_509"

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let modulusByteCount = key.modulus.count
        try WrappedKey.checkRange(input.keyMaterial, modulus: key.modulus)
        let substitute = WrappedKey.substitute()
        let block: SecretBytes
        do throws(CallError) {
            block = try session.decrypt(
                input.keyMaterial, .rsaX509, key: key.working, capacity: modulusByteCount)
        } catch {
            throw .token(error)
        }
        let message: SecretBytes
        do throws(RestorationFailure) {
            message = try OAEP.decodeSHA256(
                block: block.paddedWithLeadingZeros(to: modulusByteCount), modulusByteCount: modulusByteCount)
        } catch {
            WrappedKey.fail(input.ciphertext, with: substitute)
            throw .input
        }
        do throws(RestorationFailure) {
            return try WrappedKey.open(input.ciphertext, with: message, or: substitute)
        } catch {
            throw .input
        }
    }
}

extension SecretBytes {
    /// Some tokens cut leading zeros off, and every OAEP block begins with one.
    fileprivate consuming func paddedWithLeadingZeros(to count: Int) -> SecretBytes {
        guard self.count < count else { return self }
        var padded = SecretBytes(count: count)
        let missing = count - self.count
        unsafe padded.withUnsafeMutableBytes { target in
            unsafe withUnsafeBytes { unsafe target[missing...].copyBytes(from: $0) }
        }
        return padded
    }
}
