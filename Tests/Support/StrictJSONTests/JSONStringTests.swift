import StrictJSON
import Testing

@Suite("JSON strings, RFC 8259 §7 and RFC 3629")
struct JSONStringTests {
    @Test("Reads every escape of the grammar")
    func escapes() throws {
        let value = try JSONValue(parsing: #""\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\u0000""#)
        #expect(value == .string("\"\\/\u{8}\u{c}\n\r\tA\u{e9}\u{20ac}\u{0}"))
    }

    @Test("Reads surrogate pairs, such as RFC 8259 §7's G clef, as one character")
    func surrogatePair() throws {
        #expect(try JSONValue(parsing: #""\uD834\uDD1E""#) == .string("\u{1D11E}"))
        #expect(try JSONValue(parsing: #""\udbff\udfff-""#) == .string("\u{10FFFF}-"))
    }

    @Test(
        "Refuses an unpaired or reversed surrogate",
        arguments: [
            #""\uD834""#, #""\uD834x""#, #""\uD834\n""#, #""\uDD1E""#, #""\uDD1E\uD834""#, #""\uD834\uD834""#,
            #""\uD834\u0041""#, #""\uD834\"#,
        ])
    func unpairedSurrogate(text: String) {
        #expect(kind(of: text) == .syntax)
    }

    @Test(
        "Refuses escapes outside the grammar",
        arguments: [
            #""\x41""#, #""\a""#, #""\'""#, #""\U0041""#, #""\u004""#, #""\u004g""#, #""\u 041""#, #""\u+041""#, #""\"#,
            #""\0""#, #""\u"#,
        ])
    func otherEscapes(text: String) {
        #expect(kind(of: text) == .syntax)
    }

    @Test("Requires escapes for control characters", arguments: UInt8(0)...0x1F)
    func controlCharacters(character: UInt8) {
        #expect(kind(of: [0x22, character, 0x22]) == .syntax)
        #expect(kind(of: [0x22, 0x61, character, 0x61, 0x22]) == .syntax)
    }

    @Test("Reads DEL, which needs no escape")
    func delete() throws {
        #expect(try JSONValue(parsing: [0x22, 0x7F, 0x22]) == .string("\u{7F}"))
    }

    @Test("Reads the first and last characters of every UTF-8 length")
    func utf8Boundaries() throws {
        for scalar: Unicode.Scalar in [
            "\u{80}", "\u{7FF}", "\u{800}", "\u{FFFF}", "\u{10000}", "\u{10FFFF}", "\u{D7FF}", "\u{E000}", "\u{FFFE}",
        ] {
            let text = String(Character(scalar))
            #expect(try JSONValue(parsing: "\"\(text)\"") == .string(text))
        }
    }

    @Test(
        "Reports bytes that are not UTF-8 as notUTF8",
        arguments: [
            [0x80], [0xBF], [0xC0, 0x80], [0xC1, 0xBF], [0xC2], [0xC2, 0x41], [0xC2, 0xC2], [0xE0, 0x80, 0x80],
            [0xE0, 0x9F, 0xBF], [0xE2, 0x82], [0xE2, 0x82, 0x41], [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF],
            [0xF0, 0x80, 0x80, 0x80], [0xF0, 0x8F, 0xBF, 0xBF], [0xF0, 0x9F, 0x92], [0xF4, 0x90, 0x80, 0x80],
            [0xF5, 0x80, 0x80, 0x80], [0xF8, 0x88, 0x80, 0x80, 0x80], [0xFE], [0xFF],
        ] as [[UInt8]])
    func notUTF8(bytes: [UInt8]) {
        #expect(kind(of: [0x22] + bytes + [0x22]) == .notUTF8)
        // The same bytes must be refused in a string with an escape, which another code path reads, and in a member's
        // name.
        #expect(kind(of: Array(#""\n"#.utf8) + bytes + [0x22]) == .notUTF8)
        #expect(kind(of: Array(#"{""#.utf8) + bytes + Array(#"":1}"#.utf8)) == .notUTF8)
    }

    @Test("Reports a character that the end of the text truncates as notUTF8")
    func truncated() {
        #expect(kind(of: [0x22, 0xE2, 0x82]) == .notUTF8)
        #expect(kind(of: [0x22, 0xF0]) == .notUTF8)
    }
}
