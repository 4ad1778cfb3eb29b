import StrictJSON
import Testing

@Suite("Exact decimals")
struct ExactDecimalTests {
    @Test(
        "Compares different notations of one number as equal",
        arguments: [
            ("1099", "1099.0"), ("1099", "1.099e3"), ("1099", "109900e-2"), ("1099", "1099.000000000000"),
            ("10.99", "1099e-2"), ("0.1", "1e-1"), ("0", "-0"), ("0", "0.000"), ("0", "0e99999999"), ("-5", "-5.0"),
            ("1200", "1.2E+3"), ("1e2", "100"),
        ])
    func equal(one: String, other: String) throws {
        let value = try #require(ExactDecimal(one))
        #expect(ExactDecimal(other) == value)
    }

    @Test(
        "Writes a plain form without exponent and trailing zeros of the fraction",
        arguments: [
            ("1099", "1099"), ("1099.0", "1099"), ("1.099e3", "1099"), ("109900e-2", "1099"), ("1e2", "100"),
            ("-0", "0"),
            ("0.000", "0"), ("10.990", "10.99"), ("1e-1", "0.1"), ("-5.50e-3", "-0.0055"), ("123e-2", "1.23"),
            ("1e64", "1e64"), ("1e-99999999", "1e-99999999"),
        ])
    func plain(text: String, plain: String) throws {
        #expect(try #require(JSONNumber(text: text)).plain.text == plain)
    }

    @Test(
        "Distinguishes different numbers, however close",
        arguments: [
            ("1099", "1099.0000000000000000000000000001"), ("1099", "-1099"), ("1099", "109.9"), ("1099", "10990"),
            ("0.1", "0.10000000000000001"), ("9007199254740993", "9007199254740992"), ("1", "0"),
            ("0.30000000000000004", "0.3"),
        ])
    func different(one: String, other: String) throws {
        let value = try #require(ExactDecimal(one))
        #expect(try #require(ExactDecimal(other)) != value)
    }

    @Test(
        "Refuses text that is not a JSON number",
        arguments: ["", "-", "+1", "1.", ".1", "01", "1e", " 1", "1 ", "1,0", "0x1", "NaN", "Infinity", "1_0", "１"])
    func notANumber(text: String) {
        #expect(ExactDecimal(text) == nil)
        #expect(JSONNumber(text: text) == nil)
    }

    @Test("Accepts up to 64 significant digits, and exponents from -1000 to 1000")
    func bounds() {
        #expect(ExactDecimal(String(repeating: "9", count: 64)) != nil)
        #expect(ExactDecimal(String(repeating: "9", count: 65)) == nil)
        #expect(ExactDecimal("0." + String(repeating: "0", count: 500) + "1") != nil)
        #expect(ExactDecimal("1e1000") != nil)
        #expect(ExactDecimal("1e1001") == nil)
        #expect(ExactDecimal("1e-1001") == nil)
        #expect(ExactDecimal("1e99999999999999999999999999") == nil)
        #expect(ExactDecimal("1e-99999999999999999999999999") == nil)
    }

    @Test("Makes the same decimal from an integer as from its text")
    func integers() {
        for integer in [0, 7, -7, 1099, 120_000, -500, .max, .min] {
            #expect(ExactDecimal(integer) == ExactDecimal(String(integer)))
        }
    }

    @Test("Keeps a number's text, and returns an Int only if the text is an integer in range")
    func numbers() throws {
        let number = try #require(try JSONValue(parsing: "1099.0").numberValue)
        #expect(number.text == "1099.0")
        #expect(number.int == nil)
        #expect(number.decimal == ExactDecimal(1099))
        #expect(try JSONValue(parsing: "99999999999999999999").numberValue?.int == nil)
    }
}
