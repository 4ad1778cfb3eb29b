import Crypto
import CryptoExtras
import Foundation
public import TokenForge

/// One authority and its merchants, shared by all tests of a run because making RSA keys takes time.
public enum SharedForge {
    private static let made = Result { try Made() }

    private struct Made {
        let authority: ForgeAuthority
        let ecMerchant: ForgedMerchant
        let rsaMerchant: ForgedMerchant

        init() throws {
            authority = try ForgeAuthority()
            ecMerchant = try ForgedMerchant(
                authority: authority, type: .p256,
                profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.shop"))
            rsaMerchant = try ForgedMerchant(
                authority: authority, type: .rsa2048,
                profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.rsa"))
        }
    }

    public static var authority: ForgeAuthority { get throws { try made.get().authority } }
    /// The merchant `merchant.com.example.shop`, with a P-256 key.
    public static var ecMerchant: ForgedMerchant { get throws { try made.get().ecMerchant } }
    /// The merchant `merchant.com.example.rsa`, with an RSA-2048 key.
    public static var rsaMerchant: ForgedMerchant { get throws { try made.get().rsaMerchant } }
    /// A mint whose payment tokens are signed under ``authority``.
    public static var mint: TokenMint { get throws { TokenMint(authority: try authority) } }

    /// Mints a payment token without deviations.
    ///
    /// - Parameter merchant: the recipient; nil for ``ecMerchant``.
    public static func paymentToken(for merchant: Merchant? = nil) throws -> MintedToken {
        try mint.mint(TokenRecipe(merchant: merchant ?? ecMerchant.merchant))
    }
}

/// Payment data encrypted to a merchant's public key by Apple's algorithms, without a signature, as a worker receives
/// it. It is made with swift-crypto alone.
public struct EncryptedPayment: Sendable {
    /// The ephemeral public key (65 bytes) for EC, or the wrapped key (256 bytes) for RSA.
    public var keyMaterial: [UInt8]
    /// The OtherInfo of the one-step KDF for EC; empty for RSA.
    public var otherInfo: [UInt8]
    /// The ciphertext, followed by the 16-byte tag.
    public var ciphertext: [UInt8]
    public let plaintext: [UInt8]
    /// The SHA-256 of the merchant's SubjectPublicKeyInfo.
    public var publicKeyHash: [UInt8]

    /// Encrypts a plaintext as in an EC_v1 payment token.
    ///
    /// - Parameter subjectPublicKeyInfo: the merchant's P-256 key in DER.
    public init(ec subjectPublicKeyInfo: [UInt8], plaintext: [UInt8] = Self.randomPlaintext()) throws {
        let ephemeral = P256.KeyAgreement.PrivateKey()
        let secret = try ephemeral.sharedSecretFromKeyAgreement(
            with: P256.KeyAgreement.PublicKey(derRepresentation: subjectPublicKeyInfo))
        otherInfo = Array("\u{0D}id-aes256-GCMApple".utf8) + Array(SHA256.hash(data: Array("merchant.test".utf8)))
        var hash = SHA256()
        hash.update(data: [0, 0, 0, 1] as [UInt8])
        unsafe secret.withUnsafeBytes { unsafe hash.update(bufferPointer: $0) }
        hash.update(data: otherInfo)
        keyMaterial = Array(ephemeral.publicKey.x963Representation)
        ciphertext = try Self.seal(plaintext, SymmetricKey(data: hash.finalize()))
        publicKeyHash = Array(SHA256.hash(data: subjectPublicKeyInfo))
        self.plaintext = plaintext
    }

    /// Encrypts a plaintext as in an RSA_v1 payment token.
    ///
    /// - Parameters:
    ///   - subjectPublicKeyInfo: the merchant's RSA key in DER.
    ///   - keyByteCount: the size of the wrapped symmetric key in bytes. Apple uses 16.
    public init(
        rsa subjectPublicKeyInfo: [UInt8], plaintext: [UInt8] = Self.randomPlaintext(), keyByteCount: Int = 16,
        sha1: Bool = false
    ) throws {
        let key = SymmetricKey(size: SymmetricKeySize(bitCount: keyByteCount * 8))
        let wrapped = try _RSA.Encryption.PublicKey(derRepresentation: subjectPublicKeyInfo).encrypt(
            unsafe key.withUnsafeBytes { unsafe Data($0) }, padding: sha1 ? .PKCS1_OAEP : .PKCS1_OAEP_SHA256)
        keyMaterial = Array(wrapped)
        otherInfo = []
        ciphertext = try Self.seal(plaintext, key)
        publicKeyHash = Array(SHA256.hash(data: subjectPublicKeyInfo))
        self.plaintext = plaintext
    }

    public static func randomPlaintext() -> [UInt8] {
        (0..<Int.random(in: 1...400)).map { _ in .random(in: .min ... .max) }
    }

    private static func seal(_ plaintext: [UInt8], _ key: SymmetricKey) throws -> [UInt8] {
        let nonce = try AES.GCM.Nonce(data: [UInt8](repeating: 0, count: 16))
        let box = try AES.GCM.seal(plaintext, using: key, nonce: nonce)
        return Array(box.ciphertext + box.tag)
    }
}

/// The encodings in which output can contain a secret: unchanged, in hexadecimal of either case, and in base64, where
/// other bytes may precede it.
public enum SecretEncodings {
    public static func of(_ secret: [UInt8]) -> [[UInt8]] {
        let hex = secret.hexadecimal
        return [secret, Array(hex.utf8), Array(hex.uppercased().utf8)] + (0..<3).map { base64(secret, after: $0) }
    }

    /// Returns the base64 characters that depend only on the secret, if `offset` bytes (modulo 3) precede it. RFC 4648
    /// §4 encodes three bytes as four characters.
    private static func base64(_ secret: [UInt8], after offset: Int) -> [UInt8] {
        let bytes = [UInt8](repeating: 0, count: offset) + secret
        let text = Array(Data(bytes).base64EncodedString().utf8)
        let shared = [0, 2, 3][offset]
        let open = [0, 3, 2][bytes.count % 3]
        return Array(text.dropFirst(shared).dropLast(open))
    }

    /// Returns true if `text` contains the secret in any form.
    public static func isFound(_ secret: [UInt8], in text: [UInt8]) -> Bool {
        let data = Data(text)
        return of(secret).contains { data.range(of: Data($0)) != nil }
    }
}
