internal import Crypto
internal import Encodings
public import Refusals

/// What, with the merchant's private key, restores a payment token's symmetric key.
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

/// The Secure Element's one-time public key of an EC_v1 payment token, as the header carries it.
public struct EphemeralPublicKey: Sendable, Equatable {
    /// SubjectPublicKeyInfo in DER, 91 bytes: what the signature covers.
    public let subjectPublicKeyInfo: [UInt8]

    /// The uncompressed point, 65 bytes (SEC 1 §2.3.3). Not yet checked to be on the curve.
    public let point: [UInt8]

    /// Nil unless this is the DER of a SubjectPublicKeyInfo for P-256 as a named curve (RFC 5480 §2.1.1) with an
    /// uncompressed point. DER leaves one way of writing that, so all bytes before the point are given.
    public init?(subjectPublicKeyInfo bytes: [UInt8]) {
        guard let point = SubjectPublicKeyInfo.p256Point(in: bytes), point.first == 4 else { return nil }
        subjectPublicKeyInfo = bytes
        self.point = point
    }

    /// The point, once it is known to be on P-256.
    ///
    /// - Throws: `decryption_failed` for any other point: it must not reach the private key (an invalid-curve attack
    ///   learns the key from the answers), and the code is the one that every failed decryption has.
    public func pointOnCurve() throws(Refusal) -> [UInt8] {
        do {
            _ = try P256.KeyAgreement.PublicKey(x963Representation: point)
        } catch {
            throw .decryptionFailed
        }
        return point
    }
}

/// What the one-step KDF mixes in beside the shared secret (NIST SP 800-56A §5.8.2.1; "Restoring the symmetric key").
public enum OtherInfo {
    /// EC_v1: algorithm identifier 0x0D "id-aes256-GCM", PartyUInfo "Apple", PartyVInfo SHA-256 of the merchant
    /// identifier's UTF-8. 51 bytes, without the KDF's counter.
    public static func ecV1(merchantIdentifier: String) -> [UInt8] {
        [0x0D] + "id-aes256-GCM".utf8 + "Apple".utf8 + SHA256.hash(data: Array(merchantIdentifier.utf8))
    }
}
