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
        var scanner = LineScanner(Array(text.utf8))
        guard let year = scanner.digits(4), year >= 1, scanner.take("-"), let month = scanner.digits(2),
            scanner.take("-"),
            let day = scanner.digits(2), scanner.take("T"), let hour = scanner.digits(2), hour < 24, scanner.take(":"),
            let minute = scanner.digits(2), minute < 60, scanner.take(":"), let second = scanner.digits(2), second < 60,
            (1...12).contains(month), (1...Self.days(inMonth: month, of: year)).contains(day)
        else { return nil }
        var fraction = 0
        if scanner.take(".") {
            var digits = 0
            while digits < 9, let digit = scanner.digits(1) {
                if digits < 3 { fraction = fraction * 10 + digit }
                digits += 1
            }
            guard digits > 0 else { return nil }
            for _ in digits..<max(digits, 3) { fraction *= 10 }
        }
        var offset = 0
        if !scanner.take("Z") {
            let sign = scanner.take("+") ? 1 : scanner.take("-") ? -1 : 0
            guard sign != 0, let hours = scanner.digits(2), hours < 24, scanner.take(":"),
                let minutes = scanner.digits(2), minutes < 60
            else { return nil }
            offset = sign * (hours * 60 + minutes)
        }
        guard scanner.isAtEnd else { return nil }
        let minutes = (Self.dayNumber(year: year, month: month, day: day) * 24 + hour) * 60 + minute - offset
        self.init(milliseconds: Int64((minutes * 60 + second) * 1000 + fraction))
    }

    /// RFC 3339 with three digits of fraction and Z, always 24 characters: `2026-01-31T12:00:00.000Z`.
    public var text: String {
        let dayLength: Int64 = 86_400_000
        let day = milliseconds >= 0 ? milliseconds / dayLength : (milliseconds - dayLength + 1) / dayLength
        let time = Int(milliseconds - day * dayLength)
        let date = Self.civilDate(dayNumber: Int(day))
        var text: [UInt8] = []
        text.reserveCapacity(24)
        func append(_ number: Int, digits: Int, then separator: Unicode.Scalar) {
            var divisor = digits == 4 ? 1000 : digits == 3 ? 100 : 10
            while divisor > 0 {
                text.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
                divisor /= 10
            }
            text.append(UInt8(ascii: separator))
        }
        append(date.year, digits: 4, then: "-")
        append(date.month, digits: 2, then: "-")
        append(date.day, digits: 2, then: "T")
        append(time / 3_600_000, digits: 2, then: ":")
        append(time / 60_000 % 60, digits: 2, then: ":")
        append(time / 1000 % 60, digits: 2, then: ".")
        append(time % 1000, digits: 3, then: "Z")
        return String(decoding: text, as: UTF8.self)
    }

    public static func < (left: AuditTime, right: AuditTime) -> Bool { left.milliseconds < right.milliseconds }

    private static func days(inMonth month: Int, of year: Int) -> Int {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        return [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
    }

    // Days are counted in years that begin with March, so that the leap day is a year's last, and in eras of 400
    // years, after which the Gregorian calendar repeats. Day 0 is 1970-01-01; 719,468 days lie between 0000-03-01
    // and that.

    private static func dayNumber(year: Int, month: Int, day: Int) -> Int {
        let marchYear = month > 2 ? year : year - 1
        let era = marchYear / 400
        let yearOfEra = marchYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static func civilDate(dayNumber: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = dayNumber + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        return (era * 400 + yearOfEra + (month > 2 ? 0 : 1), month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
    }
}
