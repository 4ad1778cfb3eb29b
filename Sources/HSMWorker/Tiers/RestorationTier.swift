import PKCS11
import WorkerProtocol

/// One way to restore a transaction's symmetric key with the merchant's private key in the token, and to open the
/// payment data with it. Tiers differ in what leaves the token meanwhile; the frames do not.
protocol RestorationTier: Sendable {
    var scheme: RestorationScheme { get }
    var protection: ProtectionTier { get }

    /// Opens the payment data.
    /// - Throws: ``RestorationError/input`` for everything that a stranger's bytes can cause and nothing else.
    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8]
}

enum RestorationError: Error {
    /// The point, the wrapped key, or the tag is wrong.
    case input
    /// The token did not do its part. Some tokens answer a stranger's bytes so too: to be confirmed before it is
    /// believed.
    case token(CallError)
}

/// A private key of the token that passed its tests.
struct PrivateKeyEntry: Sendable {
    let publicKey: SubjectPublicKeyInfo
    /// The token's object.
    let object: ObjectHandle
    /// What operations are done with: the object, or a copy of it that lives in the session's memory and spares some
    /// tokens a look at their storage. The copy is as sensitive and non-extractable.
    var working: ObjectHandle

    /// The RSA modulus, big-endian; empty for EC.
    var modulus: [UInt8] {
        if case .rsa(let modulus, _) = publicKey.key { modulus } else { [] }
    }
}
