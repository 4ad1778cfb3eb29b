internal import Encodings
public import Foundation

/// A moment as records carry it: UTC in whole milliseconds, in the years 1 to 9999.
///
/// Milliseconds, because under load many records share a second and records of several nodes are read side by side.
/// The order of records is their sequence, never their time: a clock may be set back.
public struct AuditTime: Sendable, Hashable, Comparable {
    /// 0001-01-01T00:00:00.000Z.
    public static let earliest = AuditTime(milliseconds: -62_135_596_800_000)
    /// 9999-12-31T23:59:59.999Z.
    public static let latest = AuditTime(milliseconds: 253_402_300_799_999)

    /// Since 1970-01-01T00:00:00Z, without leap seconds.
    public let milliseconds: Int64

    /// Taken as the nearest of ``earliest`` and ``latest`` when beyond them.
    public init(milliseconds: Int64) {
        self.milliseconds = min(max(milliseconds, -62_135_596_800_000), 253_402_300_799_999)
    }

    /// Rounded down to the millisecond.
    public init(_ date: Date) {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded(.down)
        self.init(milliseconds: Int64(exactly: min(max(milliseconds, -1e15), 1e15)) ?? 0)
    }

    /// Nil unless `text` is exactly what ``text`` writes, the only spelling in records and checkpoints.
    public init?(stored text: String) {
        guard let time = AuditTime(rfc3339: text), time.text == text else { return nil }
        self = time
    }

    /// What a person or a script may write: RFC 3339 §5.6 with any fraction and offset, in upper case; what is finer
    /// than a millisecond is cut off. Leap seconds are not taken. Nil for anything else.
    public init?(rfc3339 text: String) {
        guard let moment = RFC3339.moment(text), !text.hasPrefix("0000") else { return nil }
        self.init(milliseconds: Int64(moment.secondsSince1970 * 1000 + moment.nanoseconds / 1_000_000))
    }

    /// RFC 3339 with three digits of fraction and Z, always 24 characters: `2026-01-31T12:00:00.000Z`.
    public var text: String { RFC3339.string(millisecondsSince1970: Int(milliseconds)) }

    public static func < (left: AuditTime, right: AuditTime) -> Bool { left.milliseconds < right.milliseconds }
}
