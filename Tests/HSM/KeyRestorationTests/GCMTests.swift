import Crypto
import Foundation
import KeyRestoration
import SecretMemory
import TestSupport
import Testing

@Suite("AES-GCM decryption")
struct GCMTests {
    private struct File: Decodable {
        struct Group: Decodable {
            let ivSize: Int
            let keySize: Int
            let tests: [Case]
        }
        struct Case: Decodable {
            let tcId: Int
            let key, iv, aad, msg, ct, tag, result: String
        }
        let testGroups: [Group]
    }

    private func open(_ data: [UInt8], _ key: [UInt8], _ vector: [UInt8]) -> [UInt8]? {
        try? GCM.open(data, key: SecretBytes(copying: key), initializationVector: vector)
    }

    @Test("decrypts Wycheproof's valid cases to exactly the message, and refuses a changed tag")
    func wycheproof() throws {
        let file = try JSONDecoder().decode(File.self, from: PublishedVectors.wycheproof("aes_gcm_test.json"))
        var opened = 0
        var openedWithLongVector = 0
        var refused = 0
        var skipped = 0
        for group in file.testGroups {
            for test in group.tests {
                // Payment tokens have no associated data, and the function takes none.
                guard test.aad.isEmpty else {
                    skipped += 1
                    continue
                }
                let key = try #require([UInt8](hexadecimal: test.key))
                let vector = try #require([UInt8](hexadecimal: test.iv))
                let data = try #require([UInt8](hexadecimal: test.ct + test.tag))
                let expected = [UInt8](hexadecimal: test.msg)
                let taken = group.keySize != 192 && (8...128).contains(group.ivSize) && test.result == "valid"
                #expect(open(data, key, vector) == (taken ? expected : nil), "case \(test.tcId)")
                if taken { opened += 1 } else { refused += 1 }
                // 16 bytes, the size of Apple's vector.
                if taken, group.ivSize == 128 { openedWithLongVector += 1 }
            }
        }
        #expect(opened == 107)
        #expect(openedWithLongVector == 38)
        #expect(refused == 155)
        #expect(skipped == 54)
    }

    @Test("decrypts NIST's cases of 128 and 256 bits to exactly the plaintext, and refuses those that NIST changed")
    func nist() throws {
        var (opened, refused) = (0, 0)
        for file in ["gcmDecrypt128.rsp", "gcmDecrypt256.rsp"] {
            for test in try PublishedVectors.cavp(file) {
                let isChanged = test.values["FAIL"] != nil
                #expect(
                    open(test.bytes("CT") + test.bytes("Tag"), test.bytes("Key"), test.bytes("IV"))
                        == (isChanged ? nil : test.bytes("PT")), "\(file), key \(test["Key"])")
                if isChanged { refused += 1 } else { opened += 1 }
            }
        }
        #expect(opened + refused == 300)
        #expect(opened == 147)
    }

    @Test("decrypts data that another implementation encrypted with Apple's zero vector", arguments: [16, 32])
    func zeroVector(keyCount: Int) throws {
        let key = (0..<keyCount).map { UInt8($0) }
        let message = Array("{\"applicationPrimaryAccountNumber\":\"…\"}".utf8)
        let sealed = try AES.GCM.seal(
            message, using: SymmetricKey(data: key), nonce: AES.GCM.Nonce(data: [UInt8](repeating: 0, count: 16)))
        let data = Array(sealed.ciphertext) + Array(sealed.tag)
        let opened = try GCM.open(data, key: SecretBytes(copying: key))
        #expect(opened == message)
    }

    @Test("refuses data with any single bit changed")
    func changedBits() throws {
        let key = [UInt8](repeating: 3, count: 32)
        let vector = [UInt8](repeating: 0, count: 16)
        let sealed = try AES.GCM.seal(
            Array("0123456789".utf8), using: SymmetricKey(data: key), nonce: AES.GCM.Nonce(data: vector))
        let data = Array(sealed.ciphertext) + Array(sealed.tag)
        #expect(open(data, key, vector) == Array("0123456789".utf8))
        for index in data.indices {
            for bit in 0..<8 {
                var changed = data
                changed[index] ^= 1 << bit
                #expect(open(changed, key, vector) == nil)
            }
        }
    }

    @Test("refuses a ciphertext shorter than a tag", arguments: [0, 1, 15])
    func tooShort(count: Int) {
        #expect(
            open([UInt8](repeating: 0, count: count), [UInt8](repeating: 0, count: 16), GCM.paymentTokenVector) == nil)
    }

    @Test("refuses a key of neither 16 nor 32 bytes", arguments: [0, 15, 17, 24, 31, 33])
    func keySize(count: Int) throws {
        #expect(
            open([UInt8](repeating: 0, count: 32), [UInt8](repeating: 0, count: count), GCM.paymentTokenVector) == nil)
    }
}
