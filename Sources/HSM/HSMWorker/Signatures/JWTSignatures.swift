import Crypto
import Encodings
import PKCS11

/// Signatures of service keys: ECDSA on P-256 with SHA-256, the algorithm ES256 of JSON Web Tokens (RFC 7518 §3.4).
enum JWTSignatures {
    /// Signs a message, and verifies the signature with the key's public key.
    /// - Returns: r ‖ s, 64 bytes, as CKM_ECDSA and ES256 define it; nil if the signature does not verify.
    static func sign(
        _ message: [UInt8], with key: PrivateKeyEntry, in session: inout Session
    ) throws(CallError) -> [UInt8]? {
        guard case .ec(let point) = key.publicKey.key else { return nil }
        let signature = try session.sign(Array(SHA256.hash(data: message)), .ecdsa, key: key.working)
        return SubjectPublicKeyInfo.verifiedECDSA(signature, of: message, point: point) == nil ? nil : signature
    }

    /// Tests a key: signs with it, and verifies the signature with its public key.
    /// - Returns: nil if the signature is valid, otherwise the fault.
    static func selfTestFailure(with key: PrivateKeyEntry, in session: inout Session) -> SelfTestFailure? {
        // A space is no character of base64url, so the message is no JSON Web Token.
        SelfTestFailure.ofSignature { () throws(CallError) in
            try sign(SelfTestFailure.messageToSign(), with: key, in: &session)
        }
    }
}
