import Crypto
import CryptoExtras
import Foundation
import KeyRestoration
import SecretMemory
import TestSupport
import Testing

extension SecretBytes {
    fileprivate var copy: [UInt8] { unsafe withUnsafeBytes { unsafe Array($0) } }
}

@Suite("HKDF with SHA-256")
struct HKDFTests {
    private func derive(_ material: [UInt8], _ salt: [UInt8], _ information: [UInt8], _ count: Int) throws -> [UInt8] {
        try HKDF.sha256(SecretBytes(copying: material), salt: salt, information: information, count: count).copy
    }

    @Test("derives the keys of RFC 5869")
    func published() throws {
        let text = try String(
            decoding: PublishedVectors.wycheproof("rfc-5869-HKDF-SHA256.txt"), as: UTF8.self)
        var tested = 0
        for block in text.components(separatedBy: "COUNT =").dropFirst() {
            var values: [String: String] = [:]
            for line in block.split(separator: "\n") where line.contains("=") {
                let parts = line.components(separatedBy: "=").map { $0.trimmingCharacters(in: .whitespaces) }
                values[parts[0]] = parts[1]
            }
            func bytes(_ name: String) throws -> [UInt8] { try #require([UInt8](hexadecimal: values[name] ?? "")) }
            let count = try #require(values["L"].flatMap { Int($0) })
            #expect(try derive(bytes("IKM"), bytes("salt"), bytes("info"), count) == bytes("OKM"))
            tested += 1
        }
        #expect(tested == 3)
    }

    @Test("agrees with swift-crypto for every number of blocks, and for secrets of any size")
    func differential() throws {
        for size in [0, 1, 31, 32, 33, 63, 64, 65, 97, 200] {
            let material = (0..<size).map { _ in UInt8.random(in: .min ... .max) }
            let salt = (0..<(size % 70)).map { _ in UInt8.random(in: .min ... .max) }
            for count in [1, 31, 32, 33, 64, 65, 255 * 32] {
                let expected = Crypto.HKDF<SHA256>.deriveKey(
                    inputKeyMaterial: SymmetricKey(data: material), salt: salt, info: Array("info".utf8),
                    outputByteCount: count)
                #expect(
                    try unsafe derive(material, salt, Array("info".utf8), count)
                        == expected.withUnsafeBytes { unsafe Array($0) })
            }
        }
    }
}

@Suite("HMAC with SHA-256")
struct HMACSHA256Tests {
    /// RFC 4231 §4.2 to §4.4, §4.7 and §4.8.
    private static let published: [(key: String, data: String, tag: String)] = [
        (
            String(repeating: "0b", count: 20), "4869205468657265",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        ),
        (
            "4a656665", "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        ),
        (
            String(repeating: "aa", count: 20), String(repeating: "dd", count: 50),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
        ),
        (
            String(repeating: "aa", count: 131),
            "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a65204b6579202d2048617368204b6579204669727374",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        ),
    ]

    @Test("makes the tags of RFC 4231, and accepts these tags alone")
    func tags() throws {
        for vector in Self.published {
            let message = try #require([UInt8](hexadecimal: vector.data))
            let key = SecretBytes(copying: try #require([UInt8](hexadecimal: vector.key)))
            let tag = try #require([UInt8](hexadecimal: vector.tag))
            #expect(try HMACSHA256.tag(of: SecretBytes(copying: message), key: key).copy == tag)
            #expect(try HMACSHA256.isValid(tag, of: message, key: key))
            #expect(try !HMACSHA256.isValid(tag, of: message + [0], key: key))
            for bit in 0..<256 {
                var wrong = tag
                wrong[bit / 8] ^= 1 << (bit % 8)
                #expect(try !HMACSHA256.isValid(wrong, of: message, key: key))
            }
            for wrong in [[], Array(tag.dropLast()), tag + [0]] {
                #expect(try !HMACSHA256.isValid(wrong, of: message, key: key))
            }
        }
    }
}

@Suite("The encryption of Google Pay's messages")
struct GooglePayMessageTests {
    private static let z = (0..<32).map { UInt8($0) }
    private let point: P256Point

    init() throws {
        point = try P256Point(uncompressed: Array(P256.KeyAgreement.PrivateKey().publicKey.x963Representation))
    }

    /// Encrypts with swift-crypto.
    private func seal(_ plaintext: [UInt8], z: [UInt8] = z) throws -> [UInt8] {
        let keys = Crypto.HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: point.bytes + z), info: Array("Google".utf8), outputByteCount: 64)
        let bytes = unsafe keys.withUnsafeBytes { unsafe Array($0) }
        let ciphertext = try AES._CTR.encrypt(
            plaintext, using: SymmetricKey(data: bytes[..<32]),
            nonce: AES._CTR.Nonce(nonceBytes: [UInt8](repeating: 0, count: 16)))
        let tag = HMAC<SHA256>.authenticationCode(for: ciphertext, using: SymmetricKey(data: bytes[32...]))
        return Array(ciphertext) + Array(tag)
    }

    private func open(_ sealed: [UInt8], z: [UInt8] = z) throws -> [UInt8] {
        try GooglePayMessage.open(sealed, z: SecretBytes(copying: z), point: point)
    }

    @Test("opens messages of every size around a block's, and beyond the counter's first octet")
    func sizes() throws {
        for size in Array(1...49) + [255, 256, 257, 4_096, 4_112, 16_384] {
            let plaintext = (0..<size).map { UInt8(truncatingIfNeeded: $0 * 7) }
            #expect(try open(seal(plaintext)) == plaintext)
        }
    }

    @Test("takes a shared secret with all its leading zeros")
    func leadingZeros() throws {
        let short = [0] + Self.z.dropFirst()
        #expect(try open(seal([1, 2, 3], z: Array(short)), z: Array(short)) == [1, 2, 3])
        #expect(throws: RestorationFailure.self) {
            try open(seal([1, 2, 3], z: Array(short)), z: Array(short.dropFirst()))
        }
    }

    @Test("refuses every change of ciphertext or tag, another secret, and data without a ciphertext")
    func refusals() throws {
        let sealed = try seal(Array("{}".utf8))
        for bit in 0..<(sealed.count * 8) {
            var changed = sealed
            changed[bit / 8] ^= 1 << (bit % 8)
            #expect(throws: RestorationFailure.self) { try open(changed) }
        }
        #expect(throws: RestorationFailure.self) { try open(sealed, z: [UInt8](repeating: 9, count: 32)) }
        // The tag of no bytes is valid, but no message is empty.
        for data in [[], Array(sealed.prefix(1)), Array(sealed.prefix(31)), try seal([])] {
            #expect(throws: RestorationFailure.self) { try open(data) }
        }
        #expect(throws: RestorationFailure.self) { try open(Array(sealed.suffix(32) + sealed.dropLast(32))) }
    }
}
