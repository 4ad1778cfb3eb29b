import Foundation
import PaymentToken
import Testing

@Suite("Base64, hexadecimal and the values written in them")
struct EncodingTests {
    @Test(
        "RFC 4648 §10's vectors, with and without padding",
        arguments: [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ])
    func base64(text: String, encoded: String) {
        #expect(Base64.encode(Array(text.utf8)) == encoded)
        #expect(Base64.decode(encoded) == Array(text.utf8))
        #expect(Base64.decode(encoded.replacing("=", with: "")) == Array(text.utf8))
    }

    @Test(
        "What is not base64 of the standard alphabet is refused",
        arguments: [
            "Z", "Zg=", "Zg===", "Zm8==", "Zm9v=", "Zm9v====", "=", "==", "====", "Zg==Zg==", "Z=g=", "Zm9v\n", " Zm9v",
            "Zm 9",
            "-_-_", "Zm9\u{0}", "Zm9é", "Zh==", "Zm9=", "Zn9", "Zm9v,",
        ])
    func notBase64(text: String) {
        #expect(Base64.decode(text) == nil)
    }

    @Test("Bytes of every value and length are written as Foundation writes them")
    func base64AgainstFoundation() {
        for length in 0..<300 {
            let bytes = (0..<length).map { index in UInt8(truncatingIfNeeded: index &* 31 &+ length) }
            #expect(Base64.encode(bytes) == Data(bytes).base64EncodedString())
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
        }
    }

    @Test("RFC 4648 §10's base16 vector, in either case")
    func hexadecimal() {
        #expect(Hexadecimal.decode("666F6F626172") == Array("foobar".utf8))
        #expect(Hexadecimal.decode("666f6F626172") == Array("foobar".utf8))
        #expect(Hexadecimal.encode(Array("foobar".utf8)) == "666f6f626172")
        #expect(Hexadecimal.decode("") == [])
    }

    @Test(
        "What is not hexadecimal is refused",
        arguments: ["6", "666", "6g", "0x66", " 66", "66 ", "-1", "６６", "/0", ":0", "@0", "`0"])
    func notHexadecimal(text: String) {
        #expect(Hexadecimal.decode(text) == nil)
    }

    @Test("A publicKeyHash is the SHA-256 of the SubjectPublicKeyInfo's bytes")
    func publicKeyHash() throws {
        // FIPS 180-2, appendix B.1: the digest of "abc".
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: Array("abc".utf8))
        #expect(hash.hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        #expect(PublicKeyHash(hex: hash.hex.uppercased()) == hash)
        #expect(PublicKeyHash(base64: hash.base64) == hash)
        #expect(hash.base64.count == 44)
        #expect(PublicKeyHash(base64: String(hash.base64.dropLast())) == hash)
        #expect(PublicKeyHash(bytes: hash.bytes.dropLast()) == nil)
        #expect(PublicKeyHash(hex: hash.hex + "00") == nil)
    }

    @Test("OtherInfo is the algorithm identifier with its length, Apple, and the merchant identifier's hash")
    func otherInfo() {
        let info = OtherInfo.ecV1(merchantIdentifier: "abc")
        #expect(
            Hexadecimal.encode(info) == "0d69642d6165733235362d47434d4170706c65"
                + "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }
}
