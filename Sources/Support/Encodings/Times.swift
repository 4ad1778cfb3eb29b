public import FoundationEssentials

/// Days of the proleptic Gregorian calendar, which RFC 3339 and X.509 use.
///
/// In this implementation, years begin in March, so that the leap day is the last day of a year and months need no
/// table. After an era of 400 years the calendar repeats. 719,468 days lie between 0000-03-01 and 1970-01-01.
public enum GregorianCalendar {
    /// - Parameters:
    ///   - month: 1 to 12.
    ///   - day: from 1; not checked against the length of the month.
    public static func daysSince1970(year: Int, month: Int, day: Int) -> Int {
        let marchYear = month > 2 ? year : year - 1
        let (era, yearOfEra) = marchYear.quotientAndPositiveRemainder(by: 400)
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    public static func date(daysSince1970 days: Int) -> (year: Int, month: Int, day: Int) {
        let (era, dayOfEra) = (days + 719_468).quotientAndPositiveRemainder(by: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        return (era * 400 + yearOfEra + (month > 2 ? 0 : 1), month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
    }

    /// - Parameter month: 1 to 12.
    static func days(inMonth month: Int, of year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}

/// Times in the form of RFC 3339 §5.6. Responses have whole seconds, `2026-01-31T12:00:00Z`; records have milliseconds,
/// `2026-01-31T12:00:00.000Z`.
///
/// The implementation is separate from Foundation's, whose parser accepts more than the standard does (hour 25, text
/// that follows). Speed also matters: a list has thousands of times, and a regular expression takes a hundred times as
/// long.
public enum RFC3339 {
    /// A parsed time, without leap seconds.
    public struct Moment: Sendable, Equatable {
        public let secondsSince1970: Int
        /// 0 to 999,999,999.
        public let nanoseconds: Int
    }

    /// The text in whole seconds, rounded down. Years outside 0 to 9999, which RFC 3339 cannot express, are clamped.
    public static func string(_ date: Date) -> String {
        let limits = (first: -62_167_219_200.0, last: 253_402_300_799.0)
        let seconds = Int(min(max(date.timeIntervalSince1970.rounded(.down), limits.first), limits.last))
        var text = written(secondsSince1970: seconds)
        text.append(UInt8(ascii: "Z"))
        return String(decoding: text, as: UTF8.self)
    }

    /// The text with three digits of fraction: always 24 characters.
    /// - Parameter milliseconds: a time in the years 0 to 9999.
    public static func string(millisecondsSince1970 milliseconds: Int) -> String {
        let (seconds, fraction) = milliseconds.quotientAndPositiveRemainder(by: 1000)
        var text = written(secondsSince1970: seconds)
        text.append(UInt8(ascii: "."))
        append(fraction, digits: 3, to: &text)
        text.append(UInt8(ascii: "Z"))
        return String(decoding: text, as: UTF8.self)
    }

    public static func date(_ text: String) -> Date? {
        moment(text).map {
            Date(timeIntervalSince1970: Double($0.secondsSince1970) + Double($0.nanoseconds) / 1_000_000_000)
        }
    }

    /// Parses date-time: `T` and `Z` in upper case, `Z` or a numeric offset, and an optional fraction of a second of
    /// at most nine digits. Nil for other texts, including leap seconds.
    public static func moment(_ text: String) -> Moment? {
        var reader = Reader(rest: Array(text.utf8)[...])
        guard let year = reader.number(4), reader.take("-"), let month = reader.number(2), reader.take("-"),
            let day = reader.number(2), reader.take("T"), let hour = reader.number(2), reader.take(":"),
            let minute = reader.number(2), reader.take(":"), let second = reader.number(2),
            let nanoseconds = reader.fraction(), let offset = reader.offset(), reader.rest.isEmpty,
            (1...12).contains(month), (1...GregorianCalendar.days(inMonth: month, of: year)).contains(day), hour < 24,
            minute < 60, second < 60
        else { return nil }
        let days = GregorianCalendar.daysSince1970(year: year, month: month, day: day)
        return Moment(
            secondsSince1970: days * 86_400 + hour * 3600 + minute * 60 + second - offset, nanoseconds: nanoseconds)
    }

    private struct Reader {
        var rest: ArraySlice<UInt8>

        mutating func take(_ character: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: character) else { return false }
            rest.removeFirst()
            return true
        }

        /// Reads exactly this number of digits.
        mutating func number(_ width: Int) -> Int? {
            let digits = rest.prefix(width)
            guard digits.count == width, digits.allSatisfy(Self.isDigit) else { return nil }
            rest.removeFirst(width)
            return digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        }

        /// The fraction in nanoseconds: 0 if there is none; nil for a point without digits, or with more than nine.
        mutating func fraction() -> Int? {
            guard take(".") else { return 0 }
            let count = rest.prefix(while: Self.isDigit).count
            guard (1...9).contains(count), var value = number(count) else { return nil }
            for _ in count..<9 { value *= 10 }
            return value
        }

        /// The offset in seconds.
        mutating func offset() -> Int? {
            if take("Z") { return 0 }
            let sign = take("-") ? -1 : take("+") ? 1 : 0
            guard sign != 0, let hour = number(2), take(":"), let minute = number(2), hour < 24, minute < 60 else {
                return nil
            }
            return sign * (hour * 60 + minute) * 60
        }

        private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
    }

    /// The text `2026-01-31T12:00:00`.
    private static func written(secondsSince1970 seconds: Int) -> [UInt8] {
        let (days, time) = seconds.quotientAndPositiveRemainder(by: 86_400)
        let date = GregorianCalendar.date(daysSince1970: days)
        var text: [UInt8] = []
        text.reserveCapacity(24)
        append(date.year, digits: 4, to: &text)
        text.append(UInt8(ascii: "-"))
        append(date.month, digits: 2, to: &text)
        text.append(UInt8(ascii: "-"))
        append(date.day, digits: 2, to: &text)
        text.append(UInt8(ascii: "T"))
        append(time / 3600, digits: 2, to: &text)
        text.append(UInt8(ascii: ":"))
        append(time / 60 % 60, digits: 2, to: &text)
        text.append(UInt8(ascii: ":"))
        append(time % 60, digits: 2, to: &text)
        return text
    }

    private static func append(_ number: Int, digits: Int, to text: inout [UInt8]) {
        var divisor = digits == 4 ? 1000 : digits == 3 ? 100 : 10
        while divisor > 0 {
            text.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
    }
}

/// Durations in the form of the configuration and the command line: a whole number and `ms`, `s`, `m`, `h` or `d`.
public enum DurationText {
    /// Parses a duration. Returns nil for any other text, and for more than ten thousand years, which would overflow
    /// the calendar.
    public static func duration(_ text: String) -> Duration? {
        let digits = text.prefix { ("0"..."9").contains($0) }
        guard (1...12).contains(digits.utf8.count), let count = Int(digits) else { return nil }
        let milliseconds =
            switch text[digits.endIndex...] {
            case "ms": 1
            case "s": 1_000
            case "m": 60_000
            case "h": 3_600_000
            case "d": 86_400_000
            default: 0
            }
        let (total, overflow) = count.multipliedReportingOverflow(by: milliseconds)
        guard milliseconds > 0, !overflow, total <= 3_652_425 * 86_400_000 else { return nil }
        return .milliseconds(total)
    }

    /// The text in the largest unit that divides the duration.
    public static func text(of duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let milliseconds = seconds * 1_000 + attoseconds / 1_000_000_000_000_000
        for (unit, size) in units where milliseconds > 0 && milliseconds % size == 0 {
            return "\(milliseconds / size)\(unit)"
        }
        return "\(milliseconds)ms"
    }

    /// The units, largest first. They are stored because the compiler would unroll a literal in the loop above, and the
    /// order of its constants would differ between builds.
    private static let units: [(unit: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000),
    ]

    public static func days(_ count: Int) -> Duration { .seconds(count * 86_400) }
}

extension Int {
    /// Euclidean division: the remainder is never negative.
    fileprivate func quotientAndPositiveRemainder(by divisor: Int) -> (Int, Int) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
