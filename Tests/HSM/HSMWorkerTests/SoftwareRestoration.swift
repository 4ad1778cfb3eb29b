import Crypto
import CryptoExtras
import Foundation
import TokenForge

/// Decryption with swift-crypto according to Apple's document, without the worker's code.
struct SoftwareRestoration {
    private let ec: P256.KeyAgreement.PrivateKey
    private let rsa: _RSA.Encryption.PrivateKey

    init(ec: ForgedMerchant, rsa: ForgedMerchant) throws {
        self.ec = try P256.KeyAgreement.PrivateKey(derRepresentation: ec.key.pkcs8)
        self.rsa = try _RSA.Encryption.PrivateKey(derRepresentation: rsa.key.pkcs8)
    }

    /// The parts of a payment token, decoded from its JSON.
    struct Parts {
        let isRSA: Bool
        /// The ephemeral public key as a SubjectPublicKeyInfo for EC_v1, or the wrapped key for RSA_v1.
        let keyMaterial: [UInt8]
        let data: [UInt8]

        struct Malformed: Error {}

        init(_ paymentToken: MintedToken) throws {
            let object = try JSONSerialization.jsonObject(with: Data(paymentToken.paymentData))
            guard let members = object as? [String: Any], let header = members["header"] as? [String: Any],
                let data = (members["data"] as? String).flatMap({ Data(base64Encoded: $0) }),
                let text = (header["ephemeralPublicKey"] ?? header["wrappedKey"]) as? String,
                let keyMaterial = Data(base64Encoded: text)
            else { throw Malformed() }
            isRSA = header["wrappedKey"] != nil
            self.data = Array(data)
            self.keyMaterial = Array(keyMaterial)
        }
    }

    /// Returns the plaintext, or nil if the payment token cannot be decrypted.
    func open(_ parts: Parts, merchantIdentifier: String) -> [UInt8]? {
        guard let key = parts.isRSA ? unwrap(parts) : agree(parts, merchantIdentifier), parts.data.count >= 16,
            let nonce = try? AES.GCM.Nonce(data: Data(count: 16)),
            let box = try? AES.GCM.SealedBox(
                nonce: nonce, ciphertext: parts.data.dropLast(16), tag: parts.data.suffix(16))
        else { return nil }
        return (try? AES.GCM.open(box, using: key)).map(Array.init)
    }

    private func unwrap(_ parts: Parts) -> SymmetricKey? {
        guard let key = try? rsa.decrypt(parts.keyMaterial, padding: .PKCS1_OAEP_SHA256), key.count == 16 else {
            return nil
        }
        return SymmetricKey(data: key)
    }

    private func agree(_ parts: Parts, _ merchantIdentifier: String) -> SymmetricKey? {
        guard let publicKey = try? P256.KeyAgreement.PublicKey(derRepresentation: parts.keyMaterial),
            let secret = try? ec.sharedSecretFromKeyAgreement(with: publicKey)
        else { return nil }
        let z = unsafe secret.withUnsafeBytes { unsafe Array($0) }
        let partyV = Array(SHA256.hash(data: Array(merchantIdentifier.utf8)))
        return SymmetricKey(
            data: SHA256.hash(data: [0, 0, 0, 1] + z + [0x0D] + Array("id-aes256-GCMApple".utf8) + partyV))
    }
}
