/// A currency of ISO 4217 in which a payment is possible.
public struct Currency: Sendable, Hashable {
    /// Three capital letters, such as `USD`.
    public let letters: String
    /// Three digits, such as `840`, which identify a currency in Apple's payment data.
    public let number: String
    /// Decimals of the minor unit, 0 to 4: 2 for the cents of a dollar.
    public let decimals: Int

    /// Finds a currency by its letters. Returns nil if ``CurrencyTable`` has no such currency.
    ///
    /// - Parameter letters: upper case, as in the standard.
    public init?(letters: String) {
        guard let known = Self.byLetters[letters] else { return nil }
        self = known
    }

    /// Finds a currency by its number. Returns nil if ``CurrencyTable`` has no such currency.
    ///
    /// - Parameter number: three digits, with leading zeros.
    public init?(number: String) {
        guard let known = Self.byNumber[number] else { return nil }
        self = known
    }

    /// All currencies of ``CurrencyTable``.
    public static let all: [Currency] = CurrencyTable.lines.split { $0 == ";" || $0 == "\n" }.map { entry in
        let fields = entry.split(separator: " ").map(String.init)
        guard fields.count == 3, let decimals = Int(fields[2]) else { preconditionFailure("the table of currencies") }
        return Currency(fields[0], fields[1], decimals)
    }

    private static let byLetters = Dictionary(uniqueKeysWithValues: all.map { ($0.letters, $0) })
    private static let byNumber = Dictionary(uniqueKeysWithValues: all.map { ($0.number, $0) })

    private init(_ letters: String, _ number: String, _ decimals: Int) {
        (self.letters, self.number, self.decimals) = (letters, number, decimals)
    }
}
