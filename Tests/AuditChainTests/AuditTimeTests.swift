import AuditChain
import Foundation
import Testing

@Suite("Times in records")
struct AuditTimeTests {
    /// Seconds by `date -u -d … +%s`.
    @Test(
        "A time is written in RFC 3339, UTC, with three digits of fraction",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (1_769_860_800_000, "2026-01-31T12:00:00.000Z"),
            (1_769_860_800_007, "2026-01-31T12:00:00.007Z"), (951_825_599_999, "2000-02-29T11:59:59.999Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"), (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ])
    func text(milliseconds: Int, text: String) throws {
        let time = AuditTime(milliseconds: Int64(milliseconds))
        #expect(time.text == text)
        #expect(AuditTime(stored: text) == time)
    }

    @Test("Every day of four centuries is written as Foundation writes it")
    func foundationAgrees() {
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        for day in stride(from: -73_000, through: 73_000, by: 19) {
            let seconds = Double(day) * 86_400 + 43_199
            #expect(
                AuditTime(milliseconds: Int64(seconds) * 1000).text
                    == Date(timeIntervalSince1970: seconds).formatted(style))
        }
    }

    @Test("A date is rounded down, and one beyond the calendar taken as its end")
    func dates() {
        #expect(AuditTime(Date(timeIntervalSince1970: 1.0019)).milliseconds == 1001)
        #expect(AuditTime(Date(timeIntervalSince1970: -0.0001)).milliseconds == -1)
        #expect(AuditTime(Date(timeIntervalSince1970: .infinity)) == .latest)
        #expect(AuditTime(Date(timeIntervalSince1970: -.infinity)) == .earliest)
    }

    @Test(
        "People may write other fractions and offsets",
        arguments: [
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z"),
            ("2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.500Z"),
            ("2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00.123Z"),
            ("2026-02-01T01:30:00+13:30", "2026-01-31T12:00:00.000Z"),
            ("2026-01-31T04:00:00.25-08:00", "2026-01-31T12:00:00.250Z"),
        ])
    func read(text: String, expected: String) throws {
        #expect(AuditTime(rfc3339: text)?.text == expected)
        #expect(AuditTime(stored: text) == nil)
    }

    @Test(
        "Anything else is not a time",
        arguments: [
            "", "2026-01-31", "2026-01-31T12:00:00", "2026-02-29T12:00:00Z", "2100-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z", "2026-00-01T12:00:00Z", "2026-01-00T12:00:00Z", "2026-01-32T12:00:00Z",
            "2026-01-31T24:00:00Z", "2026-01-31T12:60:00Z", "2026-01-31T12:00:60Z", "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00.1234567890Z", "2026-01-31 12:00:00Z", "2026-01-31T12:00:00z", "0000-01-01T00:00:00Z",
            "2026-01-31T12:00:00+24:00", "2026-01-31T12:00:00+0100", "2026-01-31T12:00:00ZZ", " 2026-01-31T12:00:00Z",
            "２026-01-31T12:00:00Z", "+026-01-31T12:00:00Z",
        ])
    func refused(text: String) {
        #expect(AuditTime(rfc3339: text) == nil)
    }
}
