import KeyRestoration
import PKCS11
import SecretMemory
import WorkerProtocol

/// The symmetric key of one RSA_v1 transaction.
///
/// A wrong padding must not be told from a wrong tag, nor from a symmetric key of a wrong size: whoever can tell opens
/// any wrapped key with some thousand questions (Manger, CRYPTO 2001). So all three do the same work, in the token and
/// here: where there is no key to open the data with, a substitute fails to.
enum WrappedKey {
    /// AES-128.
    static let byteCount = 16

    /// A wrapped key is as long as the modulus and smaller (RFC 8017 §7.1.2 and §5.1.2). Both numbers are public.
    static func checkRange(_ wrapped: [UInt8], modulus: [UInt8]) throws(RestorationError) {
        guard wrapped.count == modulus.count, wrapped.lexicographicallyPrecedes(modulus) else { throw .input }
    }

    /// A key that opens nothing. Made before each try, needed or not, so that making it does not show.
    static func substitute() -> SecretBytes {
        SecretBytes(copying: (0..<byteCount).map { _ in .random(in: .min ... .max) })
    }

    /// - Parameter substitute: tried where `key` has another size than Apple's.
    static func open(
        _ ciphertext: [UInt8], with key: borrowing SecretBytes, or substitute: borrowing SecretBytes
    ) throws(RestorationFailure) -> [UInt8] {
        guard key.count == byteCount else {
            fail(ciphertext, with: substitute)
            throw RestorationFailure()
        }
        return try GCM.open(ciphertext, key: key)
    }

    /// Takes the time that a wrong tag takes.
    static func fail(_ ciphertext: [UInt8], with substitute: borrowing SecretBytes) {
        _ = try? GCM.open(ciphertext, key: substitute)
    }
}
