public import Foundation

/// Times as they stand in every JSON document of the daemon: RFC 3339 in UTC with whole seconds,
/// `2026-01-31T12:00:00Z`.
public enum RFC3339 {
    /// Whole seconds, rounded down.
    public static func string(_ date: Date) -> String {
        Date(timeIntervalSince1970: date.timeIntervalSince1970.rounded(.down)).formatted(.iso8601)
    }

    /// Reads RFC 3339 §5.6 with `Z` or a numeric offset, with or without fractions of a second; nil for all else.
    public static func date(_ text: String) -> Date? {
        guard text.utf8.count <= 40 else { return nil }
        let whole = Date.ISO8601FormatStyle()
        let fractional = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        return (try? whole.parse(text)) ?? (try? fractional.parse(text))
    }
}
