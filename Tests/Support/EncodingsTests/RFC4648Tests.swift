import Encodings
import Foundation
import Testing

@Suite("Base64 and hexadecimal, RFC 4648")
struct RFC4648Tests {
    @Test(
        "Reads and writes the base64 vectors of RFC 4648 §10, with and without padding",
        arguments: [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ])
    func base64(text: String, encoded: String) {
        #expect(Base64.encode(Array(text.utf8)) == encoded)
        #expect(Base64.decode(encoded) == Array(text.utf8))
        #expect(Base64.decode(encoded, padding: .required) == Array(text.utf8))
        let unpadded = encoded.replacing("=", with: "")
        #expect(Base64.decode(unpadded) == Array(text.utf8))
        #expect(Base64.decode(unpadded, padding: .required) == (unpadded == encoded ? Array(text.utf8) : nil))
    }

    @Test(
        "Refuses text that is not base64 of the standard alphabet",
        arguments: [
            "Z", "Zg=", "Zg===", "Zm8==", "Zm9v=", "Zm9v====", "=", "==", "====", "Zg==Zg==", "Z=g=", "Zm9v\n", " Zm9v",
            "Zm 9",
            "-_-_", "Zm9\u{0}", "Zm9é", "Zh==", "Zm9=", "Zn9", "Zm9v,",
        ])
    func notBase64(text: String) {
        #expect(Base64.decode(text) == nil)
        #expect(Base64.decode(text, padding: .required) == nil)
    }

    @Test("Writes the same base64 as Foundation for every byte value and length")
    func base64AgainstFoundation() {
        for length in 0..<300 {
            let bytes = (0..<length).map { index in UInt8(truncatingIfNeeded: index &* 31 &+ length) }
            #expect(Base64.encode(bytes) == Data(bytes).base64EncodedString())
            #expect(Base64.encode(bytes[...]) == Base64.encode(bytes))
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
        }
    }

    @Test("Reads the base16 vectors of RFC 4648 §10 in upper and lower case")
    func hexadecimal() {
        for (text, digits) in [
            ("", ""), ("f", "66"), ("fo", "666F"), ("foo", "666F6F"), ("foob", "666F6F62"), ("fooba", "666F6F6261"),
            ("foobar", "666F6F626172"),
        ] {
            #expect(Hexadecimal.decode(digits) == Array(text.utf8))
            #expect(Hexadecimal.decode(digits.lowercased()) == Array(text.utf8))
            #expect(Hexadecimal.encode(Array(text.utf8)) == digits.lowercased())
        }
        #expect(Hexadecimal.decode("666f6F626172") == Array("foobar".utf8))
        #expect(Hexadecimal.encode([0x00, 0x0F, 0xF0, 0xFF][...]) == "000ff0ff")
    }

    @Test("Refuses upper-case hexadecimal where only lower case is permitted")
    func lowerCase() {
        #expect(Hexadecimal.decode(lowerCase: "666f6f") == Array("foo".utf8))
        for text in ["666F6F", "666f6F", "666", "6g"] { #expect(Hexadecimal.decode(lowerCase: text) == nil, "\(text)") }
        #expect(Hexadecimal.isLowerCase("0189af".utf8))
        #expect(!Hexadecimal.isLowerCase("0A".utf8))
    }

    @Test(
        "Refuses text that is not hexadecimal",
        arguments: ["6", "666", "6g", "0x66", " 66", "66 ", "-1", "６６", "/0", ":0", "@0", "`0"])
    func notHexadecimal(text: String) {
        #expect(Hexadecimal.decode(text) == nil)
    }
}
