import StrictJSON
import Testing

@Suite("JSON grammar, RFC 8259")
struct JSONGrammarTests {
    @Test("Reads every value of RFC 8259 §13's first example, with the members in order")
    func imageExample() throws {
        let image = try JSONValue(
            parsing: """
                {
                  "Image": {
                      "Width":  800,
                      "Height": 600,
                      "Title":  "View from 15th Floor",
                      "Thumbnail": {
                          "Url":    "http://www.example.com/image/481989943",
                          "Height": 125,
                          "Width":  100
                      },
                      "Animated" : false,
                      "IDs": [116, 943, 234, 38793]
                    }
                }
                """)
        let members = try #require(image.objectValue?["Image"]?.objectValue)
        #expect(members.members.map(\.name) == ["Width", "Height", "Title", "Thumbnail", "Animated", "IDs"])
        #expect(members["Width"]?.numberValue?.int == 800)
        #expect(members["Title"]?.stringValue == "View from 15th Floor")
        #expect(members["Thumbnail"]?.objectValue?["Height"]?.numberValue?.int == 125)
        #expect(members["Animated"]?.boolValue == false)
        #expect(members["IDs"]?.arrayValue?.compactMap(\.numberValue?.int) == [116, 943, 234, 38793])
    }

    @Test("Reads RFC 8259 §13's texts that contain only a string, number or literal")
    func smallTexts() throws {
        #expect(try JSONValue(parsing: "\"Hello world!\"") == .string("Hello world!"))
        #expect(try JSONValue(parsing: "42") == .number(JSONNumber(42)))
        #expect(try JSONValue(parsing: "true") == .bool(true))
        #expect(try JSONValue(parsing: " null\r\n") == .null)
    }

    @Test(
        "Reads well-formed texts",
        arguments: [
            "{}", "[]", " [ ] ", "\t{\n\"a\" :\r1 , \"b\":[ ]}", "[[],{}]", "-0", "0", "10", "-1.5e+10", "1E5", "0.0",
            "\"\"",
            "[true,false,null]", "{\"\":0}", "1e00005", "123456789012345678901234567890",
        ])
    func accepted(text: String) {
        #expect(throws: Never.self) { try JSONValue(parsing: text) }
    }

    @Test(
        "Reports text that violates the grammar as a syntax error",
        arguments: [
            "", " ", "{", "}", "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}",
            "{a:1}", "{'a':1}", "{1:1}", "{\"a\" 1}", "{\"a\":1 \"b\":2}", "tru", "True", "nul", "NaN", "Infinity", "-",
            "+1", "-a", ".5", "1.", "1.e5", "1e", "1e+", "--1", "\"", "\"a", "'a'", "/**/1", "// a\n1",
            "\u{FEFF}1", "\u{A0}1", "\u{0B}1", "\u{0C}1", "{,}", "{\"a\":1,,\"b\":2}", "nu",
        ])
    func refused(text: String) {
        #expect(kind(of: text) == .syntax)
    }

    @Test(
        "Reports text after the value, except white space, as trailing",
        arguments: [
            "1 2", "{}{}", "[]]", "{}}", "01", "-01", "0x10", "1.5.5", "nulll", "\"a\"\"b\"", "1,", "{} x", "1\u{0}",
            "0\u{A0}",
        ])
    func trailing(text: String) {
        #expect(kind(of: text) == .trailing)
    }

    @Test("States the offset of the first wrong byte in an error")
    func offset() throws {
        #expect(throws: JSONError(kind: .syntax, offset: 4)) { try JSONValue(parsing: "[1, x]") }
        #expect(throws: JSONError(kind: .trailing, offset: 3)) { try JSONValue(parsing: "{} {}") }
    }

    @Test("Names the outermost member that contains an error, at any depth")
    func outermostMember() {
        #expect(throws: JSONError(kind: .duplicateMember, offset: 34, outermostMember: "token")) {
            try JSONValue(parsing: #"{"a":1,"token":[{"x":{"y":1,"y":2}}]}"#)
        }
        #expect(throws: JSONError(kind: .duplicateMember, offset: 13)) { try JSONValue(parsing: #"{"a":1,"a":2}"#) }
    }

    @Test("Permits sixteen nested containers by default")
    func depth() throws {
        let sixteen = String(repeating: "[", count: 16) + String(repeating: "]", count: 16)
        #expect(throws: Never.self) { try JSONValue(parsing: sixteen) }
        #expect(throws: JSONError(kind: .tooDeep, offset: 16)) { try JSONValue(parsing: "[\(sixteen)]") }
        #expect(throws: Never.self) { try JSONValue(parsing: "[\(sixteen)]", limits: JSONLimits(maximumDepth: 17)) }
        let objects = String(repeating: #"{"a":"#, count: 17) + "1" + String(repeating: "}", count: 17)
        #expect(kind(of: objects) == .tooDeep)
    }

    @Test("Refuses 30,000 opening brackets without a crash, even at the maximum depth limit")
    func openingBrackets() {
        let brackets = [UInt8](repeating: UInt8(ascii: "["), count: 30_000)
        #expect(throws: JSONError(kind: .tooDeep, offset: 16)) { try JSONValue(parsing: brackets) }
        #expect(throws: JSONError(kind: .tooDeep, offset: 512)) {
            try JSONValue(parsing: brackets, limits: JSONLimits(maximumDepth: .max))
        }
    }

    @Test("Refuses 64 KiB of the same byte, unless it is a digit from 1 to 9")
    func nonsense() {
        for byte in UInt8.min...UInt8.max {
            let isNumber = (UInt8(ascii: "1")...UInt8(ascii: "9")).contains(byte)
            #expect((kind(of: [UInt8](repeating: byte, count: 65_536)) == nil) == isNumber, "\(byte)")
        }
    }
}

func kind(of text: String) -> JSONError.Kind? {
    kind(of: [UInt8](text.utf8))
}

func kind(of bytes: [UInt8]) -> JSONError.Kind? {
    do throws(JSONError) {
        _ = try JSONValue(parsing: bytes)
        return nil
    } catch {
        return error.kind
    }
}

@Suite("JSON member names")
struct JSONMemberTests {
    @Test(
        "Refuses a name that occurs twice in one object, even with different escapes",
        arguments: [
            #"{"a":1,"a":1}"#, #"{"a":1,"b":2,"a":3}"#, #"{"a":1,"\u0061":2}"#, #"{"":1,"":2}"#,
            #"{"x":{"a":1,"a":2}}"#, #"[{"a":1,"a":2}]"#, #"{"é":1,"\u00e9":2}"#, #"{"/":1,"\/":2}"#,
        ])
    func duplicate(text: String) {
        #expect(kind(of: text) == .duplicateMember)
    }

    @Test("Permits the same name in different objects")
    func sameNameElsewhere() {
        #expect(kind(of: #"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}"#) == nil)
    }

    @Test("Finds a duplicate of the first or last of 5,000 members")
    func duplicateAmongMany() {
        let names = (0..<5_000).map { number in "\"m\(number)\":0" }.joined(separator: ",")
        #expect(kind(of: "{\(names)}") == nil)
        #expect(kind(of: "{\(names),\"m0\":0}") == .duplicateMember)
        #expect(kind(of: "{\"m4999\":0,\(names)}") == .duplicateMember)
    }

    @Test("Compares names by their bytes, so that canonically equivalent names differ")
    func canonicalEquivalence() throws {
        // U+212A KELVIN SIGN is canonically equivalent to K, so Swift's String considers the two equal.
        let object = try #require(try JSONValue(parsing: "{\"wrapped\u{212A}ey\":1,\"wrappedKey\":2}").objectValue)
        #expect(object["wrappedKey"]?.numberValue?.int == 2)
        #expect(object["wrapped\u{212A}ey"]?.numberValue?.int == 1)
        let alone = try #require(try JSONValue(parsing: "{\"wrapped\u{212A}ey\":1}").objectValue)
        #expect(alone["wrappedKey"] == nil)
        #expect(JSONValue.string("\u{212A}") != .string("K"))
    }

    @Test("Compares objects regardless of their members' order")
    func equality() throws {
        let one = try JSONValue(parsing: #"{"a":1,"b":[2,3]}"#)
        #expect(try JSONValue(parsing: #"{"b":[2,3],"a":1}"#) == one)
        #expect(try JSONValue(parsing: #"{"b":[3,2],"a":1}"#) != one)
        #expect(try JSONValue(parsing: #"{"a":1}"#) != one)
        #expect(try JSONValue(parsing: #"{"a":1,"c":[2,3]}"#) != one)
    }

    @Test("Refuses to construct an object with a repeated name")
    func construction() {
        #expect(JSONObject([("a", .null), ("a", .null)]) == nil)
        #expect(JSONObject([("a", .null), ("b", .null)])?.members.count == 2)
    }
}
