import StrictJSON
import Testing

@Suite("JSON member names")
struct JSONMemberTests {
    @Test(
        "A name that occurs twice in one object is an error, in whatever spelling",
        arguments: [
            #"{"a":1,"a":1}"#, #"{"a":1,"b":2,"a":3}"#, #"{"a":1,"\u0061":2}"#, #"{"":1,"":2}"#,
            #"{"x":{"a":1,"a":2}}"#, #"[{"a":1,"a":2}]"#, #"{"é":1,"\u00e9":2}"#, #"{"/":1,"\/":2}"#,
        ])
    func duplicate(text: String) {
        #expect(kind(of: text) == .duplicateMember)
    }

    @Test("A name may occur again in another object")
    func sameNameElsewhere() {
        #expect(kind(of: #"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}"#) == nil)
    }

    @Test("A duplicate among very many members is found, first or last")
    func duplicateAmongMany() {
        let names = (0..<5_000).map { number in "\"m\(number)\":0" }.joined(separator: ",")
        #expect(kind(of: "{\(names)}") == nil)
        #expect(kind(of: "{\(names),\"m0\":0}") == .duplicateMember)
        #expect(kind(of: "{\"m4999\":0,\(names)}") == .duplicateMember)
    }

    @Test("Names compare by their bytes: canonically equivalent ones are different and found apart")
    func canonicalEquivalence() throws {
        // U+212A KELVIN SIGN is canonically equivalent to K, so Swift's String takes the two for equal.
        let object = try #require(try JSONValue(parsing: "{\"wrapped\u{212A}ey\":1,\"wrappedKey\":2}").objectValue)
        #expect(object["wrappedKey"]?.numberValue?.int == 2)
        #expect(object["wrapped\u{212A}ey"]?.numberValue?.int == 1)
        let alone = try #require(try JSONValue(parsing: "{\"wrapped\u{212A}ey\":1}").objectValue)
        #expect(alone["wrappedKey"] == nil)
        #expect(JSONValue.string("\u{212A}") != .string("K"))
    }

    @Test("Objects are equal whatever their members' order, and only then")
    func equality() throws {
        let one = try JSONValue(parsing: #"{"a":1,"b":[2,3]}"#)
        #expect(try JSONValue(parsing: #"{"b":[2,3],"a":1}"#) == one)
        #expect(try JSONValue(parsing: #"{"b":[3,2],"a":1}"#) != one)
        #expect(try JSONValue(parsing: #"{"a":1}"#) != one)
        #expect(try JSONValue(parsing: #"{"a":1,"c":[2,3]}"#) != one)
    }

    @Test("An object is not made of members whose names repeat")
    func construction() {
        #expect(JSONObject([("a", .null), ("a", .null)]) == nil)
        #expect(JSONObject([("a", .null), ("b", .null)])?.members.count == 2)
    }
}
