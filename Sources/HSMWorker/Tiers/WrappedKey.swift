import KeyRestoration
import PKCS11
import SecretMemory
import WorkerProtocol

/// The symmetric key of one RSA_v1 transaction.
enum WrappedKey {
    /// AES-128.
    static let byteCount = 16

    /// What tokens return when the padding is wrong and nothing else is. Others return what a broken token returns
    /// too.
    static let saysPadding: Set<ReturnValue> = [
        .encryptedDataInvalid, .encryptedDataLengthRange, .dataInvalid, .dataLengthRange, .wrappedKeyInvalid,
        .wrappedKeyLengthRange,
    ]

    /// A wrapped key is as long as the modulus and smaller (RFC 8017 §7.1.2 and §5.1.2). Both numbers are public.
    static func checkRange(_ wrapped: [UInt8], modulus: [UInt8]) throws(RestorationError) {
        guard wrapped.count == modulus.count, wrapped.lexicographicallyPrecedes(modulus) else { throw .input }
    }

    static func open(_ ciphertext: [UInt8], with key: borrowing SecretBytes) throws(RestorationError) -> [UInt8] {
        guard key.count == byteCount else {
            openWithNothing(ciphertext)
            throw .input
        }
        do {
            return try GCM.open(ciphertext, key: key)
        } catch {
            throw .input
        }
    }

    /// Takes the time that a wrong tag takes, so that a wrong padding does not show: a Manger oracle otherwise.
    static func openWithNothing(_ ciphertext: [UInt8]) {
        _ = try? GCM.open(
            ciphertext, key: SecretBytes(copying: (0..<byteCount).map { _ in .random(in: .min ... .max) }))
    }
}
