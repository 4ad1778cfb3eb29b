import KeyRestoration
import PKCS11
import SecretMemory
import WorkerProtocol

/// RSA_v1, tier C: the token opens the wrapped key (RSA-OAEP with SHA-256), AES-GCM is done in this process's wiped
/// memory.
struct OAEPInTokenTier: RestorationTier {
    let scheme = RestorationScheme.rsaV1
    let protection = ProtectionTier.c

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        try WrappedKey.checkRange(input.keyMaterial, modulus: key.modulus)
        let message: SecretBytes
        do throws(CallError) {
            message = try session.decrypt(
                input.keyMaterial, .rsaOAEPSHA256, key: key.working, capacity: key.modulus.count)
        } catch {
            // These say only that the padding is wrong. Others may say that too: they are confirmed.
            guard let value = error.returnValue, Self.saysPadding.contains(value) else { throw .token(error) }
            throw WrappedKey.openWithNothing(input.ciphertext)
        }
        return try WrappedKey.open(input.ciphertext, with: message)
    }

    private static let saysPadding: Set<ReturnValue> = [
        .encryptedDataInvalid, .encryptedDataLengthRange, .dataInvalid, .dataLengthRange, .wrappedKeyInvalid,
    ]
}

/// RSA_v1, tier C, for tokens without OAEP-SHA256: the token does the bare RSA operation, the padding is taken off in
/// constant time in this process's wiped memory.
struct BareRSATier: RestorationTier {
    let scheme = RestorationScheme.rsaV1
    let protection = ProtectionTier.c

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let modulusByteCount = key.modulus.count
        try WrappedKey.checkRange(input.keyMaterial, modulus: key.modulus)
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
            throw WrappedKey.openWithNothing(input.ciphertext)
        }
        return try WrappedKey.open(input.ciphertext, with: message)
    }
}

/// The symmetric key of one RSA_v1 transaction.
private enum WrappedKey {
    /// AES-128.
    static let byteCount = 16

    /// A wrapped key is as long as the modulus and smaller (RFC 8017 §7.1.2 and §5.1.2). Both numbers are public.
    static func checkRange(_ wrapped: [UInt8], modulus: [UInt8]) throws(RestorationError) {
        guard wrapped.count == modulus.count, wrapped.lexicographicallyPrecedes(modulus) else { throw .input }
    }

    static func open(_ ciphertext: [UInt8], with key: borrowing SecretBytes) throws(RestorationError) -> [UInt8] {
        guard key.count == byteCount else { throw openWithNothing(ciphertext) }
        do {
            return try GCM.open(ciphertext, key: key)
        } catch {
            throw .input
        }
    }

    /// Takes the time that a wrong tag takes, so that a wrong padding does not show: a Manger oracle otherwise.
    static func openWithNothing(_ ciphertext: [UInt8]) -> RestorationError {
        _ = try? GCM.open(
            ciphertext, key: SecretBytes(copying: (0..<byteCount).map { _ in .random(in: .min ... .max) }))
        return .input
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
