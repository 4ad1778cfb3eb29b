import Crypto
import CryptoExtras
public import Foundation

/// Decrypts payment tokens with the merchant's private key in software, so that tests can compare a daemon's answer. It
/// checks neither signature nor time, and shares no code with the daemon.
public struct TokenOpener: Sendable {
    private let merchant: Merchant
    private let key: ForgeKey

    /// Makes an opener for the payment tokens of one merchant.
    ///
    /// - Throws: ``ForgeFailure`` if the key does not match the certificate.
    public init(merchant: Merchant, key: ForgeKey) throws(ForgeFailure) {
        guard key.subjectPublicKeyInfo == merchant.subjectPublicKeyInfo else {
            throw .key("the private key is not the certificate's")
        }
        self.merchant = merchant
        self.key = key
    }

    /// Decrypts a payment token.
    ///
    /// - Parameter paymentToken: the JSON of a PKPaymentToken or of its paymentData.
    /// - Returns: the decrypted bytes; nil if the payment token cannot be decrypted with this key.
    /// - Throws: ``ForgeFailure`` if `paymentToken` is not a payment token.
    public func open(_ paymentToken: Data) throws(ForgeFailure) -> [UInt8]? {
        let (keyMaterial, data) = try Self.parts(of: paymentToken)
        guard let key = restoredKey(keyMaterial), data.count >= 16,
            let nonce = try? AES.GCM.Nonce(data: [UInt8](repeating: 0, count: 16)),
            let box = try? AES.GCM.SealedBox(nonce: nonce, ciphertext: data.dropLast(16), tag: data.suffix(16))
        else { return nil }
        return (try? AES.GCM.open(box, using: key)).map(Array.init)
    }

    /// Returns the key material, which is the ephemeral SubjectPublicKeyInfo or the wrapped key, and the ciphertext
    /// with its tag.
    private static func parts(of paymentToken: Data) throws(ForgeFailure) -> (keyMaterial: Data, data: Data) {
        let whole = (try? JSONSerialization.jsonObject(with: paymentToken)) as? [String: Any]
        guard let members = whole?["paymentData"] as? [String: Any] ?? whole,
            let header = members["header"] as? [String: Any],
            let data = (members["data"] as? String).flatMap({ Data(base64Encoded: $0) }),
            let text = (header["ephemeralPublicKey"] ?? header["wrappedKey"]) as? String,
            let keyMaterial = Data(base64Encoded: text)
        else { throw .recipe("no payment token in JSON") }
        return (keyMaterial, data)
    }

    private func restoredKey(_ keyMaterial: Data) -> SymmetricKey? {
        switch key {
        case .p256(let key): try? agreedKey(key, keyMaterial)
        case .rsa(let key): try? Self.unwrappedKey(key, keyMaterial)
        case .p384: nil
        }
    }

    private static func unwrappedKey(_ key: _RSA.Signing.PrivateKey, _ wrapped: Data) throws -> SymmetricKey? {
        let key = try _RSA.Encryption.PrivateKey(derRepresentation: key.derRepresentation)
        let unwrapped = try key.decrypt(wrapped, padding: .PKCS1_OAEP_SHA256)
        return unwrapped.count == 16 ? SymmetricKey(data: unwrapped) : nil
    }

    private func agreedKey(_ key: P256.Signing.PrivateKey, _ ephemeral: Data) throws -> SymmetricKey {
        let secret = try P256.KeyAgreement.PrivateKey(rawRepresentation: key.rawRepresentation)
            .sharedSecretFromKeyAgreement(with: P256.KeyAgreement.PublicKey(derRepresentation: ephemeral))
        var derivation = SHA256()
        derivation.update(data: [0, 0, 0, 1])
        unsafe secret.withUnsafeBytes { unsafe derivation.update(bufferPointer: $0) }
        derivation.update(data: [0x0d] + Array("id-aes256-GCMApple".utf8))
        derivation.update(data: Array(SHA256.hash(data: Array(merchant.identifier.utf8))))
        return SymmetricKey(data: Array(derivation.finalize()))
    }
}
