import KeyRestoration
import KeyTypes
import PKCS11
import SecretMemory
import WorkerProtocol

// Unsafe: Both pointers are used only within the closures; the copy ends exactly at the end of `padded`.

/// RSA_v1, tier C: the HSM token opens the wrapped key (RSA-OAEP with SHA-256); AES-GCM takes place in this process's
/// wiped memory.
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
            guard error.mayBeCausedByInput else { throw .hsmToken(error) }
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

/// RSA_v1, tier C, for HSM tokens without OAEP-SHA256. The HSM token does the bare RSA operation, and this process
/// removes the padding in constant time in its wiped memory.
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
        let object = key.working
        let block = try RestorationError.throwingAsHSMTokenError { () throws(CallError) in
            try session.decrypt(input.keyMaterial, .rsaX509, key: object, capacity: modulusByteCount)
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
    /// Restores leading zero bytes, which some HSM tokens strip. Every OAEP block begins with a zero byte.
    consuming func paddedWithLeadingZeros(to count: Int) -> SecretBytes {
        guard self.count < count else { return self }
        var padded = SecretBytes(count: count)
        let missing = count - self.count
        unsafe padded.withUnsafeMutableBytes { target in
            unsafe withUnsafeBytes { unsafe target[missing...].copyBytes(from: $0) }
        }
        return padded
    }
}

/// The symmetric key of one RSA_v1 transaction.
///
/// A caller must not be able to distinguish a wrong padding, a wrong tag and a symmetric key of a wrong size. Otherwise
/// the caller could open any wrapped key in some thousand attempts (Manger, CRYPTO 2001). So all three faults cause the
/// same work, in the HSM token and in this process. If there is no key to open the data with, a substitute key is
/// tried, and fails.
enum WrappedKey {
    /// The size of an AES-128 key.
    static let byteCount = 16

    /// Checks that a wrapped key is as long as the modulus and smaller (RFC 8017 §7.1.2 and §5.1.2). Both numbers are
    /// public.
    static func checkRange(_ wrapped: [UInt8], modulus: [UInt8]) throws(RestorationError) {
        guard wrapped.count == modulus.count, wrapped.lexicographicallyPrecedes(modulus) else { throw .input }
    }

    /// A key that opens no data. It is made before each attempt, even if it is not needed, so that the time to make it
    /// reveals nothing.
    static func substitute() -> SecretBytes {
        SecretBytes(copying: (0..<byteCount).map { _ in .random(in: .min ... .max) })
    }

    /// - Parameter substitute: The key that is tried if `key` does not have the size that Apple uses.
    static func open(
        _ ciphertext: [UInt8], with key: borrowing SecretBytes, or substitute: borrowing SecretBytes
    ) throws(RestorationFailure) -> [UInt8] {
        guard key.count == byteCount else {
            fail(ciphertext, with: substitute)
            throw RestorationFailure()
        }
        return try GCM.open(ciphertext, key: key)
    }

    /// Decrypts with the substitute key and discards the result, so that this failure takes as long as a wrong tag.
    static func fail(_ ciphertext: [UInt8], with substitute: borrowing SecretBytes) {
        _ = try? GCM.open(ciphertext, key: substitute)
    }
}
