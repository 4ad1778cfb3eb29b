/// An amount of money as a whole number of its currency's minor units. It is never a floating-point number, since 0.1
/// has no exact binary representation.
///
/// Apple's payment data also contain the amount as a whole number (`transactionAmount`). For currencies with two
/// decimals, that number is known to count minor units of ISO 4217. For other currencies, its unit is unknown, since
/// Apple's reference has no example with zero or three decimals (``isAppleUnitVerified``).
public struct Amount: Sendable, Hashable {
    /// The number of minor units, from 0 to ``most``.
    public let minorUnits: Int64
    public let currency: Currency

    /// The largest number with twelve digits, the size of ISO 8583's field 4 and EMV's tag 9F02.
    public static let most: Int64 = 999_999_999_999

    /// Returns nil if `minorUnits` is negative, or more than ``most``.
    public init?(minorUnits: Int64, currency: Currency) {
        guard (0...Self.most).contains(minorUnits) else { return nil }
        (self.minorUnits, self.currency) = (minorUnits, currency)
    }

    /// Parses a decimal in major units, such as `10.99`: digits, optionally followed by a point and one or more further
    /// digits, at most as many as the currency has decimals. It must not have a sign, exponent, blank or grouping, nor
    /// a leading zero before another digit.
    ///
    /// `10` and `10.9` are accepted, because they can mean only one amount. `10.990` is not accepted for dollars,
    /// because the writer may have meant another currency.
    public init?(decimal: String, currency: Currency) {
        let parts = decimal.utf8.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
        let (whole, fraction) = (Array(parts[0]), parts.count == 2 ? Array(parts[1]) : [])
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        guard (1...12).contains(whole.count), whole.allSatisfy(digits.contains), fraction.allSatisfy(digits.contains),
            whole.count == 1 || whole.first != digits.lowerBound, parts.count == 1 || !fraction.isEmpty,
            fraction.count <= currency.decimals
        else { return nil }
        var units: Int64 = 0
        for digit in whole + fraction { units = units * 10 + Int64(digit - digits.lowerBound) }
        for _ in fraction.count..<currency.decimals { units *= 10 }
        self.init(minorUnits: units, currency: currency)
    }

    /// The amount in major units with all of the currency's decimals: `10.90`, and `1000` for a currency without
    /// decimals. The text is also a valid JSON number.
    public var decimal: String {
        let digits = String(minorUnits)
        guard currency.decimals > 0 else { return digits }
        let padded = String(repeating: "0", count: max(0, currency.decimals + 1 - digits.count)) + digits
        return padded.dropLast(currency.decimals) + "." + padded.suffix(currency.decimals)
    }

    /// True if the unit in which Apple counts amounts of this currency is known.
    public var isAppleUnitVerified: Bool { currency.decimals == 2 }
}
