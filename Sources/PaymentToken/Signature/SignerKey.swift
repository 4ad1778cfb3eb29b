internal import Crypto
internal import CryptoExtras
internal import SwiftASN1

/// The public key with which a token's signature is checked: of the kind that Apple's reference gives the version.
enum SignerKey {
    /// EC_v1: ecdsa-with-SHA256 on P-256.
    case p256(P256.Signing.PublicKey)
    /// RSA_v1: RSASSA-PKCS1-v1_5 with SHA-256, 2048 bits or more.
    case rsa(_RSA.Signing.PublicKey)

    /// - Parameter subjectPublicKeyInfo: of the signer's certificate, DER.
    init(subjectPublicKeyInfo: ArraySlice<UInt8>, version: TokenVersion) throws {
        do {
            switch version {
            case .ecV1: self = .p256(try P256.Signing.PublicKey(derRepresentation: Array(subjectPublicKeyInfo)))
            case .rsaV1: self = .rsa(try _RSA.Signing.PublicKey(derRepresentation: Array(subjectPublicKeyInfo)))
            }
        } catch {
            throw CMSDefect(
                version == .ecV1
                    ? "the signer of an EC_v1 token has no P-256 key" : "the signer of an RSA_v1 token has no RSA key")
        }
    }

    /// Whether a CMS signer may name its signature so. RSA signers may name the key's algorithm alone, since the
    /// digest is named apart (RFC 3370 §3.2); Apple's do either.
    func accepts(_ algorithm: AlgorithmIdentifier) -> Bool {
        switch self {
        case .p256: algorithm == AlgorithmIdentifier(.ecdsaWithSHA256)
        case .rsa:
            algorithm == AlgorithmIdentifier(.rsaEncryption)
                || algorithm == AlgorithmIdentifier(.sha256WithRSAEncryption)
        }
    }

    /// - Parameter signature: ECDSA: `SEQUENCE { r INTEGER, s INTEGER }` in DER (RFC 3279 §2.2.3). RSA: as long as the
    ///   modulus.
    func isValid(signature: ArraySlice<UInt8>, over message: [UInt8]) -> Bool {
        let digest = SHA256.hash(data: message)
        switch self {
        case .p256(let key):
            guard let signature = try? P256.Signing.ECDSASignature(derRepresentation: Array(signature))
            else { return false }
            return key.isValidSignature(signature, for: digest)
        case .rsa(let key):
            return key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: Array(signature)), for: digest,
                padding: .insecurePKCS1v1_5)
        }
    }
}
