/// What, with the merchant's private key, restores a token's symmetric key.
public enum KeyMaterial: Sendable, Equatable {
    /// EC_v1.
    case ephemeralPublicKey(EphemeralPublicKey)
    /// RSA_v1: the symmetric key, RSA-OAEP encrypted; as long as the modulus, 256 bytes.
    case wrappedKey([UInt8])

    /// The length of a wrapped key: Apple's portal accepts 2048-bit RSA keys only.
    public static let wrappedKeySize = 256

    /// The bytes that the header carries and the signature covers.
    public var encoded: [UInt8] {
        switch self {
        case .ephemeralPublicKey(let key): key.subjectPublicKeyInfo
        case .wrappedKey(let key): key
        }
    }
}
