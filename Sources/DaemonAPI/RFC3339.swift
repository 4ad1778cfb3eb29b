public import Foundation

/// Times as they stand in every JSON document of the daemon: RFC 3339 in UTC with whole seconds,
/// `2026-01-31T12:00:00Z`.
///
/// Written out here because Foundation's parser takes more than the standard does (hour 25, text that follows).
public enum RFC3339 {
    /// Whole seconds, rounded down. Years outside 0 to 9999, which RFC 3339 cannot write, become its limits.
    public static func string(_ date: Date) -> String {
        let limits = (first: -62_167_219_200.0, last: 253_402_300_799.0)
        let seconds = Int(min(max(date.timeIntervalSince1970.rounded(.down), limits.first), limits.last))
        let (days, time) = seconds.quotientAndPositiveRemainder(by: 86_400)
        let (year, month, day) = civilDate(daysSince1970: days)
        return "\(digits(year, 4))-\(digits(month, 2))-\(digits(day, 2))T"
            + "\(digits(time / 3600, 2)):\(digits(time / 60 % 60, 2)):\(digits(time % 60, 2))Z"
    }

    /// Reads RFC 3339 §5.6 date-time: `T` and `Z` in upper case, `Z` or a numeric offset, with or without a fraction
    /// of a second. Nil for all else, leap seconds included.
    public static func date(_ text: String) -> Date? {
        var reader = Reader(rest: text.utf8[...])
        guard let year = reader.number(4), reader.take("-"), let month = reader.number(2), reader.take("-"),
            let day = reader.number(2), reader.take("T"), let hour = reader.number(2), reader.take(":"),
            let minute = reader.number(2), reader.take(":"), let second = reader.number(2),
            let fraction = reader.fraction(), let offset = reader.offset(), reader.rest.isEmpty,
            (1...12).contains(month), day >= 1, day <= length(ofMonth: month, year: year), hour < 24, minute < 60,
            second < 60
        else { return nil }
        let days = daysSince1970(year: year, month: month, day: day)
        return Date(
            timeIntervalSince1970: Double(days * 86_400 + hour * 3600 + minute * 60 + second - offset) + fraction)
    }

    /// Lists have thousands of times: no regular expression, which takes a hundred times as long.
    private struct Reader {
        var rest: Substring.UTF8View

        mutating func take(_ character: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: character) else { return false }
            rest.removeFirst()
            return true
        }

        /// Exactly so many digits.
        mutating func number(_ width: Int) -> Int? {
            let digits = rest.prefix(width)
            guard digits.count == width, digits.allSatisfy(Self.isDigit) else { return nil }
            rest.removeFirst(width)
            return digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        }

        /// 0 where there is none; nil for a point without digits, or with more than nine.
        mutating func fraction() -> Double? {
            guard take(".") else { return 0 }
            let digits = rest.prefix(while: Self.isDigit)
            guard (1...9).contains(digits.count), let text = String(digits) else { return nil }
            rest.removeFirst(digits.count)
            return Double("0." + text)
        }

        /// In seconds.
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

    private static func digits(_ number: Int, _ width: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
    }

    private static func isLeap(_ year: Int) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }

    private static func length(ofMonth month: Int, year: Int) -> Int {
        switch month {
        case 2: isLeap(year) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// In the proleptic Gregorian calendar, counted in years that begin in March, so that the leap day comes last.
    private static func daysSince1970(year: Int, month: Int, day: Int) -> Int {
        let shifted = month > 2 ? year : year - 1
        let (era, yearOfEra) = shifted.quotientAndPositiveRemainder(by: 400)
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static func civilDate(daysSince1970 days: Int) -> (year: Int, month: Int, day: Int) {
        let (era, dayOfEra) = (days + 719_468).quotientAndPositiveRemainder(by: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }
}

extension Int {
    /// Euclidean division: the remainder is never negative.
    fileprivate func quotientAndPositiveRemainder(by divisor: Int) -> (Int, Int) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}
