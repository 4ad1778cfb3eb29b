internal import Crypto

/// A public key on P-256 (FIPS 186-5, SP 800-186 §3.2.1.3), checked: it lies on the curve and is not the point at
/// infinity. An ECDH with a point off the curve would give the private key away bit by bit, and not every token checks.
public struct P256Point: Sendable, Hashable {
    /// The uncompressed form of SEC 1 §2.3.3, 65 bytes: 0x04 ‖ x ‖ y.
    public let bytes: [UInt8]

    /// Takes the uncompressed form and no other.
    public init(uncompressed bytes: [UInt8]) throws(RestorationFailure) {
        guard bytes.count == 65, bytes[0] == 0x04,
            (try? P256.KeyAgreement.PublicKey(x963Representation: bytes)) != nil
        else { throw RestorationFailure() }
        self.bytes = bytes
    }
}
