import Crypto
import Encodings
import PKCS11

/// Signatures of service keys: ECDSA on P-256 with SHA-256, the algorithm ES256 of JSON Web Tokens (RFC 7518 §3.4).
enum JWTSignatures {
    /// Signs a message, and verifies the signature with the key's public key.
    /// - Returns: r ‖ s, 64 bytes, as CKM_ECDSA and ES256 define it; nil if the signature does not verify.
    static func sign(
        _ message: [UInt8], with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(CallError) -> [UInt8]? {
        guard case .ec(let point) = key.publicKey.key else { return nil }
        let signature = try session.sign(Array(SHA256.hash(data: message)), .ecdsa, key: key.working)
        return SubjectPublicKeyInfo.verifiedECDSA(signature, of: message, point: point) == nil ? nil : signature
    }

    /// Tests a key: signs with it, and verifies the signature with its public key.
    /// - Returns: nil if the signature is valid, otherwise the fault.
    static func selfTestFailure(
        with key: borrowing PrivateKeyEntry, in session: inout Session
    ) -> SelfTestFailure? {
        // A space is no character of base64url, so the message is no JSON Web Token, and its signature has no other
        // use.
        let message = Array("paytokend tests this key: ".utf8) + (0..<32).map { _ in UInt8.random(in: .min ... .max) }
        do throws(CallError) {
            guard try sign(message, with: key, in: &session) != nil else {
                return SelfTestFailure("a signature that does not verify")
            }
            return nil
        } catch {
            return SelfTestFailure(error.description, error)
        }
    }
}
