import Payments
import Testing

@Suite("Amounts of money")
struct AmountTests {
    private func currency(_ letters: String) throws -> Currency { try #require(Currency(letters: letters)) }

    @Test(
        "reads a decimal in major units as a whole number of minor units",
        arguments: [
            ("USD", "10.99", 1099), ("USD", "10.9", 1090), ("USD", "10", 1000), ("USD", "0", 0), ("USD", "0.01", 1),
            ("USD", "0.1", 10), ("JPY", "1099", 1099), ("KWD", "1.099", 1099), ("KWD", "0.001", 1),
            ("UYW", "1.0001", 10_001), ("USD", "9999999999.99", 999_999_999_999),
            ("JPY", "999999999999", 999_999_999_999),
        ])
    func decimals(_ letters: String, _ decimal: String, _ units: Int64) throws {
        #expect(try Amount(decimal: decimal, currency: currency(letters))?.minorUnits == units)
    }

    @Test(
        "refuses text that is not an amount in the currency's canonical form",
        arguments: [
            ("USD", "10.990"), ("JPY", "10.0"), ("JPY", "10."), ("USD", ""), ("USD", "."), ("USD", ".5"), ("USD", "5."),
            ("USD", "-1"), ("USD", "+1"), ("USD", "1e3"), ("USD", "1,00"), ("USD", "1 000"), ("USD", " 1"),
            ("USD", "01"),
            ("USD", "00"), ("USD", "1.2.3"), ("USD", "0x10"), ("USD", "NaN"), ("USD", "١٠"), ("USD", "1\u{0}"),
            ("USD", "10000000000.00"), ("JPY", "1000000000000"), ("USD", "9223372036854775808"),
            ("USD", "99999999999999999999999999"), ("KWD", "1.0001"), ("UYW", "999999999999999"),
            ("UYW", "999999999999.9999"), ("UYW", "922337203685478"),
        ])
    func refused(_ letters: String, _ decimal: String) throws {
        #expect(try Amount(decimal: decimal, currency: currency(letters)) == nil)
    }

    @Test(
        "writes minor units with all of the currency's decimals",
        arguments: [
            ("USD", 1090, "10.90"), ("USD", 1, "0.01"), ("USD", 0, "0.00"), ("JPY", 1000, "1000"), ("JPY", 0, "0"),
            ("KWD", 5, "0.005"), ("KWD", 12_345, "12.345"), ("UYW", 1, "0.0001"),
            ("EUR", 999_999_999_999, "9999999999.99"),
        ])
    func written(_ letters: String, _ units: Int64, _ decimal: String) throws {
        let amount = try #require(try Amount(minorUnits: units, currency: currency(letters)))
        #expect(amount.decimal == decimal)
        #expect(Amount(decimal: decimal, currency: amount.currency) == amount)
    }

    @Test("refuses negative amounts and more than twelve digits", arguments: [-1, Int64.min, 1_000_000_000_000, .max])
    func bounds(_ units: Int64) throws {
        #expect(try Amount(minorUnits: units, currency: currency("USD")) == nil)
    }

    @Test("treats equal numbers in different currencies as different amounts")
    func currencies() throws {
        #expect(try Amount(decimal: "1", currency: currency("USD")) != Amount(decimal: "1", currency: currency("AUD")))
    }

    @Test(
        "states that Apple's unit of an amount is verified only for currencies with two decimals",
        arguments: [("USD", true), ("JPY", false), ("KWD", false)])
    func appleUnit(_ letters: String, _ isVerified: Bool) throws {
        #expect(try Amount(minorUnits: 1, currency: currency(letters))?.isAppleUnitVerified == isVerified)
    }
}
