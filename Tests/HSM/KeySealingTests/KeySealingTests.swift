import Crypto
import Foundation
import SecretMemory
import Testing

@testable import KeySealing

@Suite("Key sealing")
struct KeySealingTests {
    private let certificate: [UInt8] = Array("a certificate's DER".utf8)

    private func secret(_ bytes: [UInt8]) -> SecretBytes { SecretBytes(copying: bytes) }

    private func contents(_ secret: borrowing SecretBytes) -> [UInt8] {
        unsafe secret.withUnsafeBytes { unsafe Array($0) }
    }

    @Test("opens a sealed key at its recipient, byte for byte")
    func opens() throws {
        let recipient = KeySealing.Recipient()
        for length in [1, 138, 1218, KeySealing.maximumPrivateKeyByteCount] {
            let key = (0..<length).map { UInt8(truncatingIfNeeded: $0) }
            let sealed = try KeySealing.seal(
                privateKey: secret(key), authenticating: certificate, to: recipient.publicKey)
            #expect(sealed.encapsulatedKey.count == KeySealing.pointByteCount)
            #expect(sealed.sealed.count == length + KeySealing.overheadByteCount)
            let opened = try recipient.open(
                encapsulatedKey: sealed.encapsulatedKey, sealed: sealed.sealed, authenticating: certificate)
            #expect(contents(opened) == key)
        }
    }

    @Test("seals one key twice to two unrelated ciphertexts")
    func fresh() throws {
        let recipient = KeySealing.Recipient()
        let key = [UInt8](repeating: 7, count: 64)
        let first = try KeySealing.seal(privateKey: secret(key), authenticating: certificate, to: recipient.publicKey)
        let second = try KeySealing.seal(privateKey: secret(key), authenticating: certificate, to: recipient.publicKey)
        #expect(first.encapsulatedKey != second.encapsulatedKey)
        #expect(first.sealed != second.sealed)
    }

    @Test("fails to open a key at another recipient, such as the same worker after its restart")
    func otherRecipient() throws {
        let sealed = try KeySealing.seal(
            privateKey: secret([1, 2, 3]), authenticating: certificate, to: KeySealing.Recipient().publicKey)
        #expect(throws: KeySealingError.notOpened) {
            _ = try KeySealing.Recipient().open(
                encapsulatedKey: sealed.encapsulatedKey, sealed: sealed.sealed, authenticating: certificate)
        }
    }

    @Test("fails to open a key for another certificate")
    func otherCertificate() throws {
        let recipient = KeySealing.Recipient()
        let sealed = try KeySealing.seal(
            privateKey: secret([1, 2, 3]), authenticating: certificate, to: recipient.publicKey)
        #expect(throws: KeySealingError.notOpened) {
            _ = try recipient.open(
                encapsulatedKey: sealed.encapsulatedKey, sealed: sealed.sealed, authenticating: certificate + [0])
        }
    }

    @Test("detects a change of any byte")
    func changed() throws {
        let recipient = KeySealing.Recipient()
        let sealed = try KeySealing.seal(
            privateKey: secret([1, 2, 3]), authenticating: certificate, to: recipient.publicKey)
        for index in sealed.sealed.indices {
            var changed = sealed.sealed
            changed[index] ^= 1
            #expect(throws: KeySealingError.notOpened) {
                _ = try recipient.open(
                    encapsulatedKey: sealed.encapsulatedKey, sealed: changed, authenticating: certificate)
            }
        }
        for index in sealed.encapsulatedKey.indices {
            var changed = sealed.encapsulatedKey
            changed[index] ^= 1
            #expect(throws: KeySealingError.notOpened) {
                _ = try recipient.open(encapsulatedKey: changed, sealed: sealed.sealed, authenticating: certificate)
            }
        }
    }

    @Test("refuses lengths outside the bounds before any cryptographic operation")
    func lengths() throws {
        let recipient = KeySealing.Recipient()
        let point = recipient.publicKey
        #expect(throws: KeySealingError.unsuitableLength) {
            _ = try KeySealing.seal(
                privateKey: secret([UInt8](repeating: 1, count: KeySealing.maximumPrivateKeyByteCount + 1)),
                authenticating: certificate, to: point)
        }
        for count in [0, 16, KeySealing.maximumPrivateKeyByteCount + 17] {
            #expect(throws: KeySealingError.unsuitableLength) {
                _ = try recipient.open(
                    encapsulatedKey: point, sealed: [UInt8](repeating: 0, count: count), authenticating: certificate)
            }
        }
    }

    @Test("refuses an import key that is not a point on the curve")
    func offCurve() throws {
        var point = KeySealing.Recipient().publicKey
        point[64] ^= 1
        for key in [point, [], [0], [UInt8](repeating: 4, count: 65)] {
            #expect(throws: KeySealingError.unsuitableImportKey) {
                _ = try KeySealing.seal(privateKey: secret([1]), authenticating: certificate, to: key)
            }
        }
    }

    @Test("uses RFC 9180's base mode, which swift-crypto's HPKE opens with the documented parameters")
    func published() throws {
        let scalar = P256.KeyAgreement.PrivateKey()
        let recipient = try KeySealing.Recipient(scalar: Array(scalar.rawRepresentation))
        #expect(recipient.publicKey == Array(scalar.publicKey.x963Representation))
        let sealed = try KeySealing.seal(
            privateKey: secret([9, 8, 7]), authenticating: certificate, to: recipient.publicKey)
        var hpke = try HPKE.Recipient(
            privateKey: scalar,
            ciphersuite: HPKE.Ciphersuite(kem: .P256_HKDF_SHA256, kdf: .HKDF_SHA256, aead: .AES_GCM_256),
            info: Data("paytokend key import v1".utf8), encapsulatedKey: Data(sealed.encapsulatedKey))
        #expect(try Array(hpke.open(sealed.sealed, authenticating: certificate)) == [9, 8, 7])
    }
}
