/// The version of Radial's schema that a request states, such as `1.2`; it determines the elements of the reply.
///
/// Versions are compared number by number: 1.10 is newer than 1.2, and 1 equals 1.0.
public struct SchemaVersion: Sendable, Comparable {
    /// The numbers as digits, each without leading zeros. Trailing numbers that are zero are removed.
    private let numbers: [String]

    /// The version of a request without SchemaVersion. The element is optional in the schema.
    public static let absent = SchemaVersion(numbers: ["1"])

    private init(numbers: [String]) { self.numbers = numbers }

    /// Returns nil unless the text matches the pattern `([0-9]+\.)*[0-9]+`.
    public init?(_ text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        guard parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy(digits.contains) }) else { return nil }
        var numbers = parts.map { String(decoding: $0.drop { $0 == digits.lowerBound }, as: UTF8.self) }
        while numbers.last?.isEmpty == true { numbers.removeLast() }
        self.numbers = numbers
    }

    public static func < (first: SchemaVersion, second: SchemaVersion) -> Bool {
        for index in 0..<max(first.numbers.count, second.numbers.count) {
            let one = index < first.numbers.count ? first.numbers[index] : ""
            let other = index < second.numbers.count ? second.numbers[index] : ""
            // Without leading zeros the longer number is the larger one.
            if one.utf8.count != other.utf8.count { return one.utf8.count < other.utf8.count }
            if one != other { return one < other }
        }
        return false
    }

    /// Returns true if a reply has ResponseCode: from 1.1 on.
    public var hasResponseCode: Bool { self >= SchemaVersion(numbers: ["1", "1"]) }

    /// Returns true if a reply has TenderType: from 1.2 on.
    public var hasTenderType: Bool { self >= SchemaVersion(numbers: ["1", "2"]) }
}
