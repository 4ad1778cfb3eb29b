import Crypto
import KeyTypes
import TestSupport
import WorkerProtocol

/// Frames with encrypted payment data for one merchant key. Each class has one fault, and all frames of a key have the same
/// length.
struct EncryptedInputs {
    let algorithm: KeyAlgorithm
    /// The key's SubjectPublicKeyInfo in DER.
    let key: [UInt8]

    /// Apple's payment data has about 300 bytes.
    private static let length = 304
    /// The number of shared secrets with a leading zero byte. One in 256 has it, so that more would take long.
    private static let secrets = 48

    func classes() throws -> [InputClass<[UInt8]>] {
        let common = [
            faulty("valid") { _ in },
            faulty("tag-first") { $0.ciphertext[$0.ciphertext.count - 16] ^= .random(in: 1 ... .max) },
            faulty("tag-last") { $0.ciphertext[$0.ciphertext.count - 1] ^= .random(in: 1 ... .max) },
        ]
        switch algorithm {
        case .ec:
            return common + [
                // Another y coordinate alone: the point is off the curve.
                faulty("point") { $0.keyMaterial[64] ^= .random(in: 1 ... .max) },
                faulty("unknown") { $0.publicKeyHash = Self.random(32) },
                try secret("secret-zero") { $0 == 0 },
                try secret("secret-other") { $0 != 0 },
            ]
        case .rsa:
            return common + [
                // The first octet of almost every block is then another than 0, which Manger's attack needs to know.
                faulty("octet") { $0.keyMaterial[100] ^= .random(in: 1 ... .max) },
                // The first octet is 0, and the hash of the label is wrong.
                encrypted("hash") { try EncryptedPayment(rsa: key, plaintext: $0, sha1: true) },
                encrypted("size") { try EncryptedPayment(rsa: key, plaintext: $0, keyByteCount: 32) },
            ]
        }
    }

    private func faulty(_ name: String, _ change: @escaping (inout EncryptedPayment) -> Void) -> InputClass<[UInt8]> {
        encrypted(name) { plaintext in
            var payment =
                switch algorithm {
                case .ec: try EncryptedPayment(ec: key, plaintext: plaintext)
                case .rsa: try EncryptedPayment(rsa: key, plaintext: plaintext)
                }
            change(&payment)
            return payment
        }
    }

    private func encrypted(
        _ name: String, _ encrypt: @escaping ([UInt8]) throws -> EncryptedPayment
    ) -> InputClass<[UInt8]> {
        InputClass(name: "\(algorithm.name)-\(name)") {
            let payment = try encrypt(Self.random(Self.length))
            return try frame(payment.keyMaterial, payment.otherInfo, payment.ciphertext, payment.publicKeyHash)
        }
    }

    /// Returns a class of valid payment data whose shared secrets begin with an accepted byte.
    private func secret(_ name: String, begins accepts: (UInt8) -> Bool) throws -> InputClass<[UInt8]> {
        let otherInfo = Array("\u{0D}id-aes256-GCMApple".utf8) + Self.random(32)
        let merchant = try P256.KeyAgreement.PublicKey(derRepresentation: key)
        var frames: [[UInt8]] = []
        while frames.count < Self.secrets {
            let ephemeral = P256.KeyAgreement.PrivateKey()
            let secret = try ephemeral.sharedSecretFromKeyAgreement(with: merchant)
            let bytes = unsafe secret.withUnsafeBytes { unsafe Array($0) }
            guard accepts(bytes[0]) else { continue }
            let box = try AES.GCM.seal(
                Self.random(Self.length),
                using: SymmetricKey(data: SHA256.hash(data: [0, 0, 0, 1] + bytes + otherInfo)),
                nonce: AES.GCM.Nonce(data: [UInt8](repeating: 0, count: 16)))
            try frames.append(
                frame(
                    Array(ephemeral.publicKey.x963Representation), otherInfo, Array(box.ciphertext + box.tag),
                    Array(SHA256.hash(data: key))))
        }
        var next = 0
        return InputClass(name: "\(algorithm.name)-\(name)") {
            defer { next += 1 }
            return frames[next % frames.count]
        }
    }

    private func frame(
        _ keyMaterial: [UInt8], _ otherInfo: [UInt8], _ ciphertext: [UInt8], _ publicKeyHash: [UInt8]
    ) throws -> [UInt8] {
        try WorkerRequest.decrypt(
            Decryption(
                publicKeyHash: publicKeyHash, scheme: algorithm == .ec ? .ecV1 : .rsaV1, keyMaterial: keyMaterial,
                otherInfo: otherInfo, ciphertext: ciphertext)
        ).encoded(identifier: 1)
    }

    static func random(_ count: Int) -> [UInt8] { (0..<count).map { _ in .random(in: .min ... .max) } }
}
