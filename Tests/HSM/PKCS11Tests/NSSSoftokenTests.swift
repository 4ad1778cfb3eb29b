import Crypto
import CryptoExtras
import Foundation
import PKCS11
import SecretMemory
import TestSupport
import Testing

/// NSS's softoken without a database, the tests' second library. It supports mechanisms that SoftHSM lacks, and
/// receives its configuration as a string.
@Suite(
    "NSS's softoken",
    .enabled(
        if: NSSSoftoken.isInstalled,
        "needs \(NSSSoftoken.libraryPath) (Debian: libnss3)"))
struct NSSSoftokenTests {

    private func makePair(_ session: inout Session) throws -> (publicKey: ObjectHandle, privateKey: ObjectHandle) {
        try session.generateKeyPair(
            .ecKeyPairGeneration,
            publicKey: [.ecParameters(EllipticCurve.p256Parameters), .token(false)],
            privateKey: [.token(false), .private(false), .sensitive(true), .extractable(false), .derive(true)])
    }

    private func publicKey(_ object: ObjectHandle, _ session: inout Session) throws -> P256.KeyAgreement.PublicKey {
        let value = try session.attributes([.ecPoint], of: object).bytes(.ecPoint)
        let point = try #require(value.flatMap(EllipticCurve.p256Point(inAttributeValue:)))
        return try P256.KeyAgreement.PublicKey(x963Representation: point)
    }

    private func makeRSAPair(_ session: inout Session) throws -> (
        key: ObjectHandle, publicKey: _RSA.Encryption.PublicKey
    ) {
        let pair = try session.generateKeyPair(
            .rsaKeyPairGeneration,
            publicKey: [.token(false), .modulusBits(2048), .publicExponent([1, 0, 1])],
            privateKey: [
                .token(false), .private(false), .sensitive(true), .extractable(false), .decrypt(true), .unwrap(true),
            ])
        let parts = try session.attributes([.modulus, .publicExponent], of: pair.publicKey)
        let publicKey = try _RSA.Encryption.PublicKey(
            n: #require(parts.bytes(.modulus)), e: #require(parts.bytes(.publicExponent)))
        return (pair.privateKey, publicKey)
    }

    @Test("initialises NSS with a parameter string")
    func info() throws {
        let info = try NSSSoftoken.module().info()
        #expect(info.manufacturer.hasPrefix("Mozilla"))
    }

    @Test("restores EC_v1's key entirely in the HSM token with ECDH, concatenation, SHA-256 and AES-GCM")
    func tierB() throws { try NSSSoftoken.alone(tierB) }

    private func tierB(_ session: inout Session) throws {
        let pair = try makePair(&session)
        let peer = P256.KeyAgreement.PrivateKey()
        let otherInfo = [0x0D] + Array("id-aes256-GCMApple".utf8) + Array(repeating: 0x77, count: 32)
        let shared = try peer.sharedSecretFromKeyAgreement(with: publicKey(pair.publicKey, &session))
        let z = unsafe shared.withUnsafeBytes { unsafe Array($0) }
        let vector = [UInt8](repeating: 0, count: 16)
        let sealed = try AES.GCM.seal(
            Array("payment data".utf8),
            using: SymmetricKey(data: SHA256.hash(data: [0, 0, 0, 1] + z + otherInfo)),
            nonce: AES.GCM.Nonce(data: vector))

        func secret(_ type: KeyType, _ count: Int) -> Template {
            [
                .objectClass(.secretKey), .keyType(type), .valueLength(count), .token(false), .sensitive(true),
                .extractable(false), .derive(true), .decrypt(true),
            ]
        }
        let secretKey = try session.deriveKey(
            .ecdh1Derive(.null, publicPoint: Array(peer.publicKey.x963Representation)), from: pair.privateKey,
            secret(.genericSecret, 32))
        let withCounter = try session.deriveKey(
            .concatenateDataAndBase([0, 0, 0, 1]), from: secretKey, secret(.genericSecret, 36))
        let whole = try session.deriveKey(
            .concatenateBaseAndData(otherInfo), from: withCounter, secret(.genericSecret, 36 + otherInfo.count))
        let key = try session.deriveKey(.sha256KeyDerivation, from: whole, secret(.aes, 32))
        var data = Array(sealed.ciphertext) + Array(sealed.tag)
        let opened = try session.decrypt(
            data, .aesGCM(initializationVector: vector), key: key, capacity: data.count)
        let right = opened.holds(Array("payment data".utf8))
        #expect(right)
        data[0] ^= 1
        #expect(throws: CallError.self) {
            _ = try session.decrypt(data, .aesGCM(initializationVector: vector), key: key, capacity: data.count)
        }
    }

    @Test("decrypts RSA-OAEP with SHA-256 in the HSM token, and unwraps a key that never leaves it")
    func oaep() throws { try NSSSoftoken.alone(oaep) }

    private func oaep(_ session: inout Session) throws {
        let (key, publicKey) = try makeRSAPair(&session)
        let aesKey = (0..<16).map { UInt8($0) }
        let wrapped = Array(try publicKey.encrypt(aesKey, padding: .PKCS1_OAEP_SHA256))
        let decrypted = try session.decrypt(wrapped, .rsaOAEPSHA256, key: key, capacity: 256)
        let right = decrypted.holds(aesKey)
        #expect(right)

        let object = try session.unwrapKey(
            wrapped, .rsaOAEPSHA256, with: key,
            [
                .objectClass(.secretKey), .keyType(.aes), .token(false), .sensitive(true), .extractable(false),
                .decrypt(true),
            ])
        let vector = [UInt8](repeating: 0, count: 16)
        let sealed = try AES.GCM.seal(
            [1, 2, 3], using: SymmetricKey(data: aesKey), nonce: AES.GCM.Nonce(data: vector))
        let opened = try session.decrypt(
            Array(sealed.ciphertext) + Array(sealed.tag), .aesGCM(initializationVector: vector), key: object,
            capacity: 32)
        let same = opened.holds([1, 2, 3])
        #expect(same)
        do {
            _ = try session.secretValue(of: object, count: 16)
            Issue.record("the unwrapped key left the token")
        } catch {
            #expect(error.returnValue == .attributeSensitive)
        }
    }
}
