import Encodings
import Foundation
import Testing

@Suite("Times, RFC 3339, and durations")
struct TimeTests {
    private static let noon = Date(timeIntervalSince1970: 1_769_860_800)

    @Test("Writes RFC 3339 in UTC, rounded down to seconds, and reads any offset")
    func times() {
        #expect(RFC3339.string(Self.noon) == "2026-01-31T12:00:00Z")
        #expect(RFC3339.string(Self.noon + 0.999) == "2026-01-31T12:00:00Z")
        #expect(RFC3339.date("2026-01-31T12:00:00Z") == Self.noon)
        #expect(RFC3339.date("2026-01-31T13:00:00+01:00") == Self.noon)
        #expect(RFC3339.date("2026-01-31T12:00:00.250Z") == Self.noon + 0.25)
        #expect(RFC3339.date("2026-01-31T00:30:00-11:30") == Self.noon)
        // These times are the limits of RFC 3339, days around leap days, and days before 1970.
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0.0), ("1969-12-31T23:59:59Z", -1), ("2000-02-29T00:00:00Z", 951_782_400),
            ("1900-03-01T00:00:00Z", -2_203_891_200), ("2100-02-28T23:59:59Z", 4_107_542_399),
            ("0000-01-01T00:00:00Z", -62_167_219_200), ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            #expect(RFC3339.date(text) == Date(timeIntervalSince1970: seconds))
            #expect(RFC3339.string(Date(timeIntervalSince1970: seconds)) == text)
        }
        #expect(RFC3339.string(.distantFuture + 1e15) == "9999-12-31T23:59:59Z")
    }

    @Test(
        "Reads the examples of RFC 3339 §5.8",
        arguments: [
            ("1985-04-12T23:20:50.52Z", 482_196_050, 520_000_000),
            ("1996-12-19T16:39:57-08:00", 851_042_397, 0), ("1996-12-20T00:39:57Z", 851_042_397, 0),
            ("1937-01-01T12:00:27.87+00:20", -1_041_337_173, 870_000_000),
        ])
    func examples(text: String, seconds: Int, nanoseconds: Int) throws {
        let moment = try #require(RFC3339.moment(text))
        #expect(moment.secondsSince1970 == seconds)
        #expect(moment.nanoseconds == nanoseconds)
    }

    @Test(
        "Refuses text that is not RFC 3339, and leap seconds",
        arguments: [
            "", "2026-01-31", "12:00:00Z", "2026-01-31T12:00:00", "2026-13-31T12:00:00Z", "2026-01-31T25:00:00Z",
            "2026-01-31T24:00:00Z", "2026-02-29T12:00:00Z", "2100-02-29T12:00:00Z", "1900-02-29T12:00:00Z",
            "2026-02-30T12:00:00Z", "2024-02-30T12:00:00Z", "2026-04-31T12:00:00Z", "2026-06-31T12:00:00Z",
            "2026-01-00T12:00:00Z", "2026-00-01T12:00:00Z", "2026-01-32T12:00:00Z", "2026-01-31T12:60:00Z",
            "2026-01-31T12:00:60Z", "1990-12-31T23:59:60Z", "1990-12-31T15:59:60-08:00", "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00.1234567890Z", "2026-01-31T12:00:00+24:00", "2026-01-31T12:00:00+01:60",
            "2026-01-31 12:00:00Z", "2026-01-31t12:00:00Z", "2026-01-31T12:00:00z", "٢٠٢٦-01-31T12:00:00Z",
            "2026-01-31T12:00:00+0100", "tomorrow", "1769860800", "2026-01-31T12:00:00Z\n", "2026-01-31T12:00:00ZZ",
            String(repeating: "2", count: 1000),
        ])
    func noTimes(text: String) {
        #expect(RFC3339.date(text) == nil)
        #expect(RFC3339.moment(text) == nil)
    }

    @Test(
        "Reads and writes leap days of the Gregorian calendar",
        arguments: ["2000-02-29T12:00:00Z", "2024-02-29T23:59:59Z", "2400-02-29T00:00:00Z", "0000-02-29T00:00:00Z"])
    func leapDays(text: String) throws {
        #expect(try RFC3339.string(#require(RFC3339.date(text))) == text)
    }

    @Test("Writes milliseconds as three digits, also for times before 1970")
    func milliseconds() {
        #expect(RFC3339.string(millisecondsSince1970: 0) == "1970-01-01T00:00:00.000Z")
        #expect(RFC3339.string(millisecondsSince1970: -1) == "1969-12-31T23:59:59.999Z")
        #expect(RFC3339.string(millisecondsSince1970: 253_402_300_799_999) == "9999-12-31T23:59:59.999Z")
        #expect(RFC3339.string(millisecondsSince1970: 1_769_860_800_007) == "2026-01-31T12:00:00.007Z")
    }

    @Test("Converts between days and dates for every day from 0000 to 9999, in agreement with Foundation")
    func everyDay() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        let first = GregorianCalendar.daysSince1970(year: 0, month: 1, day: 1)
        let last = GregorianCalendar.daysSince1970(year: 9999, month: 12, day: 31)
        #expect((first, last) == (-719_528, 2_932_896))
        var before = (year: -1, month: 12, day: 31)
        var wrong = 0
        for day in first...last {
            let date = GregorianCalendar.date(daysSince1970: day)
            let isNext =
                date == (before.year, before.month, before.day + 1)
                || (date.day == 1 && date == (before.year, before.month + 1, 1))
                || date == (before.year + 1, 1, 1)
            if !isNext || GregorianCalendar.daysSince1970(year: date.year, month: date.month, day: date.day) != day {
                wrong += 1
            }
            before = date
        }
        #expect(wrong == 0)
        // Foundation's calendar is Julian before 1582, so the comparison starts later.
        for day in stride(from: -140_000, through: last, by: 4_999) {
            let parts = calendar.dateComponents(
                [.year, .month, .day], from: Date(timeIntervalSince1970: Double(day) * 86_400))
            let date = GregorianCalendar.date(daysSince1970: day)
            #expect((parts.year, parts.month, parts.day) == (date.year, date.month, date.day))
        }
    }

    @Test("Reads a duration as a whole number and a unit")
    func durations() {
        for (text, duration) in [
            ("60d", Duration.seconds(5_184_000)), ("12h", .seconds(43_200)), ("5m", .seconds(300)),
            ("30s", .seconds(30)),
            ("0d", .zero), ("500ms", .milliseconds(500)), ("1500ms", .milliseconds(1_500)),
        ] { #expect(DurationText.duration(text) == duration, "\(text)") }
        for text in [
            "", "60", "d", "-1d", "+1d", "1.5d", "60 d", "60D", "60w", "٦d", "99999999999d", "9999999999999d",
            "3652426d",
        ] { #expect(DurationText.duration(text) == nil, "\(text)") }
        #expect(DurationText.duration("3652425d") == DurationText.days(3_652_425))
    }

    @Test("Writes a duration in the largest unit of which it is a multiple")
    func durationTexts() {
        for text in ["1d", "36h", "90m", "61s", "1500ms", "0ms"] {
            #expect(DurationText.duration(text).map(DurationText.text(of:)) == text)
        }
        #expect(DurationText.text(of: .seconds(86_400)) == "1d")
        #expect(DurationText.text(of: .seconds(7_200)) == "2h")
    }
}
