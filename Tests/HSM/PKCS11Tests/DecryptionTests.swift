import Crypto
import CryptoExtras
import PKCS11
import SecretMemory
import TestSupport
import Testing

@Suite("Decryption and unwrapping in an HSM token")
struct DecryptionTests {
    private func makeAESKey(_ session: inout Session, _ value: [UInt8]) throws -> ObjectHandle {
        var secrets = SecretAttributes(capacity: value.count)
        secrets.append(.value, SecretBytes(copying: value))
        return try session.createObject(
            [
                .objectClass(.secretKey), .keyType(.aes), .token(false), .private(true), .sensitive(true),
                .extractable(false), .decrypt(true), .encrypt(true),
            ], secrets: secrets)
    }

    @Test("decrypts AES-GCM data of another implementation in the HSM token, and refuses a changed tag")
    func aesGCM() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let key = [UInt8](repeating: 0x11, count: 32)
        let vector = [UInt8](repeating: 0, count: 16)
        let object = try makeAESKey(&session, key)
        let sealed = try AES.GCM.seal(
            Array("payment data".utf8), using: SymmetricKey(data: key), nonce: AES.GCM.Nonce(data: vector),
            authenticating: [9, 9])
        var data = Array(sealed.ciphertext) + Array(sealed.tag)
        let mechanism = Mechanism.aesGCM(initializationVector: vector, associatedData: [9, 9])
        let opened = try session.decrypt(data, mechanism, key: object, capacity: data.count)
        let right = opened.holds(Array("payment data".utf8))
        #expect(right)
        data[data.count - 1] ^= 1
        #expect(throws: CallError.self) { _ = try session.decrypt(data, mechanism, key: object, capacity: data.count) }
        data[data.count - 1] ^= 1
        let again = try session.decrypt(data, mechanism, key: object, capacity: data.count)
        #expect(again.count == 12)
    }

    @Test("fails to decrypt into a buffer that is too small, and serves the next request in the same session")
    func tooLittleRoom() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let pair = try session.generateKeyPair(
            .rsaKeyPairGeneration,
            publicKey: [.token(false), .modulusBits(2048), .publicExponent([1, 0, 1]), .encrypt(true)],
            privateKey: [.token(false), .private(true), .sensitive(true), .extractable(false), .decrypt(true)])
        let block = [UInt8](repeating: 0, count: 255) + [5]
        do {
            _ = try session.decrypt(block, .rsaX509, key: pair.privateKey, capacity: 16)
            Issue.record("decrypted into 16 bytes")
        } catch {
            #expect(error.returnValue == .bufferTooSmall)
        }
        let plaintext = try session.decrypt(block, .rsaX509, key: pair.privateKey, capacity: 256)
        #expect(plaintext.count == 256)
    }

    @Test("makes an RSA PKCS #1 signature in the HSM token that the public key verifies")
    func rsaSignature() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let pair = try session.generateKeyPair(
            .rsaKeyPairGeneration,
            publicKey: [.token(false), .modulusBits(2048), .publicExponent([1, 0, 1]), .verify(true)],
            privateKey: [.token(false), .private(true), .sensitive(true), .extractable(false), .sign(true)])
        let signature = try session.sign([1, 2, 3], .rsaPKCS1SHA256, key: pair.privateKey)
        #expect(signature.count == 256)
        let numbers = try session.attributes([.modulus, .publicExponent], of: pair.publicKey)
        let key = try _RSA.Signing.PublicKey(
            n: #require(numbers.bytes(.modulus)), e: #require(numbers.bytes(.publicExponent)))
        let parsed = _RSA.Signing.RSASignature(rawRepresentation: signature)
        #expect(key.isValidSignature(parsed, for: [1, 2, 3] as [UInt8], padding: .insecurePKCS1v1_5))
        #expect(!key.isValidSignature(parsed, for: [1, 2, 4] as [UInt8], padding: .insecurePKCS1v1_5))
    }
}
