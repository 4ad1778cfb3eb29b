import Encodings
import Testing

@Suite("Percent-encoding, RFC 3986")
struct PercentEncodingTests {
    @Test("Keeps unreserved characters, and encodes all others with upper-case hexadecimal digits")
    func encoded() {
        let unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
        #expect(PercentEncoding.encoded(unreserved) == unreserved)
        #expect(PercentEncoding.encoded("a/b c+é\u{0}") == "a%2Fb%20c%2B%C3%A9%00")
        // The example is from RFC 3986 §2.5: KATAKANA LETTER A.
        #expect(PercentEncoding.encoded("ア") == "%E3%82%A2")
    }

    @Test("Decodes hexadecimal digits in either case, and plus as a space in a query only")
    func decoded() {
        #expect(PercentEncoding.decoded("%e3%82%A2") == "ア")
        #expect(PercentEncoding.decoded("a%2Fb+c") == "a/b+c")
        #expect(PercentEncoding.decoded("a%2Bb+c", plusIsSpace: true) == "a+b c")
        #expect(PercentEncoding.decoded("") == "")
    }

    @Test(
        "Refuses broken encodings, bytes that are not UTF-8, and control characters",
        arguments: [
            "%", "%4", "%g1", "%1g", "%%41", "%C3", "%C0%80", "%ED%A0%80", "a%00b", "a%0d%0aX", "%7F", "a\u{7}",
        ])
    func refused(text: String) {
        #expect(PercentEncoding.decoded(text) == nil)
    }
}

@Suite("Key references")
struct KeyReferenceTests {
    private let hash = (0..<32).map { UInt8($0 * 7 + 1) }

    @Test("Reads a publicKeyHash in base64, in hexadecimal of either case, or as a hexadecimal prefix")
    func names() {
        let hex = Hexadecimal.encode(hash)
        for text in [Base64.encode(hash), hex, hex.uppercased()] {
            #expect(KeyReference(text)?.hex == hex)
            #expect(KeyReference(text)?.isWhole == true)
        }
        for length in 8..<64 where length != 44 {
            let reference = KeyReference(String(hex.prefix(length)))
            #expect(reference?.isWhole == false)
            #expect(reference?.matches(hash) == true)
        }
    }

    @Test("Matches a prefix that ends within a byte against the byte's first half")
    func prefix() throws {
        let reference = try #require(KeyReference("01080f16f"))
        #expect(reference.matches([0x01, 0x08, 0x0F, 0x16, 0xF0]))
        #expect(!reference.matches([0x01, 0x08, 0x0F, 0x16, 0x0F]))
        #expect(!reference.matches([0x01, 0x08, 0x0F, 0x16]))
    }

    @Test(
        "Refuses text that is not a key reference",
        arguments: [
            "", "0001020", "0001020g", String(repeating: "0", count: 65), String(repeating: "!", count: 44),
            "0x010203", " 0001020", "０００１０２０３", "0001020\u{0}",
            // Text of 44 characters is read as base64, even if it could be hexadecimal. This text is base64 of 33
            // bytes, not 32.
            String(repeating: "0", count: 44),
        ])
    func noNames(text: String) {
        #expect(KeyReference(text) == nil)
    }
}

@Suite("Shell words")
struct ShellWordTests {
    @Test(
        "quotes text that a shell would split or expand",
        arguments: [
            ("/var/lib/a-b_c.pem", "/var/lib/a-b_c.pem"), ("", "''"), ("a b", "'a b'"), ("a'b", #"'a'\''b'"#),
            ("$(id)", "'$(id)'"),
            ("a;b", "'a;b'"), ("~", "'~'"), ("é", "'é'"),
        ])
    func quoted(text: String, word: String) {
        #expect(ShellWord.of(text) == word)
    }
}
