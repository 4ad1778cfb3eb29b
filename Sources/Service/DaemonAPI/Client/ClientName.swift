/// The client for which a caller asks, in the header `Paytokend-Client`: 1 to 64 printable ASCII characters without blanks.
///
/// It counts for fairness only: a caller's turns go round the names that it gives. It is never recorded and never trusted.
public struct ClientName: Sendable, Hashable {
    public static let header = "Paytokend-Client"
    private static let longest = 64

    public let text: String

    /// - Returns: nil for a text that is no such name.
    public init?(_ text: String) {
        guard (1...Self.longest).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return nil
        }
        self.text = text
    }

    /// Reads a request's headers of that name.
    ///
    /// - Returns: nil where there is none, more than one, or no such name.
    public init?(headers values: [String]) {
        guard values.count == 1, let value = values.first else { return nil }
        self.init(value)
    }
}
