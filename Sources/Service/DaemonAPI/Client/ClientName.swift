/// The client on whose behalf a caller asks, from the header `Paytokend-Client`: 1 to 64 printable ASCII characters without
/// blanks.
///
/// The name serves fairness only: a caller's turns rotate among the names that it gives. It is never recorded and never
/// trusted.
public struct ClientName: Sendable, Hashable {
    public static let header = "Paytokend-Client"
    private static let longest = 64

    public let text: String

    /// - Returns: nil for a text of another form.
    public init?(_ text: String) {
        guard (1...Self.longest).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return nil
        }
        self.text = text
    }

    /// Reads the values of a request's headers of that name.
    ///
    /// - Returns: nil if there is no value, more than one, or one of another form.
    public init?(headers values: [String]) {
        guard values.count == 1, let value = values.first else { return nil }
        self.init(value)
    }
}
