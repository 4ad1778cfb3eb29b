import AuditChain
import Foundation
import TestSupport
import Testing

@Suite("Text in records")
struct AuditTextTests {
    @Test(
        "replaces the digits of a run of 12 or more with asterisks",
        arguments: [
            ("card 4111111111111111 of Ann", "card **************** of Ann"),
            ("123456789012", "************"),
            ("4111 1111 1111 1111", "**** **** **** ****"),
            ("4111-1111-1111-1111.", "****-****-****-****."),
            ("4111 - 1111 – 1111\u{00A0}1111", "**** - **** – ****\u{00A0}****"),
            ("٤١١١١١١١١١١١١١١١", "****************"),
            ("4111\u{200B}1111\u{200B}1111\u{200B}1111", "****\u{FFFD}****\u{FFFD}****\u{FFFD}****"),
            ("4111\n1111\n1111\n1111", "****\u{FFFD}****\u{FFFD}****\u{FFFD}****"),
        ])
    func masked(text: String, expected: String) {
        #expect(AuditReason(text).text == expected)
        #expect(AuditText(text).text == expected)
    }

    @Test(
        "leaves runs of fewer than 12 digits unchanged",
        arguments: ["ticket 12345678901", "order-1234", "2026-01-31 12:00", "10.0.0.1", "a1b2c3d4e5f6a7b8c9d0e1f2"])
    func kept(text: String) {
        #expect(AuditReason(text).text == text)
    }

    @Test("replaces unprintable and direction-changing characters with U+FFFD")
    func unprintable() {
        #expect(
            AuditReason("a\u{1B}[2Jb\u{202E}c\u{7F}d\u{2028}e\tf").text
                == "a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}d\u{FFFD}e\u{FFFD}f")
    }

    @Test("shortens a reason to 200 scalars and a name to 255, the last of which is an ellipsis")
    func cut() {
        let long = String(repeating: "é", count: 300)
        #expect(AuditReason(long).text == String(repeating: "é", count: 199) + "…")
        #expect(AuditText(long).text == String(repeating: "é", count: 254) + "…")
        let fitting = String(repeating: "x", count: 200)
        #expect(AuditReason(fitting).text == fitting)
    }

    @Test("masks a run of digits completely even if the text is cut within it")
    func cutThroughARun() {
        let text = String(repeating: "x", count: 190) + "4111111111111111"
        #expect(AuditReason(text).text == String(repeating: "x", count: 190) + "*********…")
    }

    @Test("leaves cleaned text unchanged")
    func idempotent() {
        var generator = SeededGenerator(seed: 7)
        let alphabet: [Unicode.Scalar] = [
            "1", "2", "9", "٣", " ", "-", "a", "\u{200D}", "\u{0301}", "\u{FFFD}", "*", "…",
        ]
        for _ in 0..<2000 {
            var view = String.UnicodeScalarView()
            for _ in 0..<Int.random(in: 0...40, using: &generator) {
                view.append(alphabet.randomElement(using: &generator) ?? "a")
            }
            let once = AuditReason(String(view)).text
            #expect(AuditReason(once).text.unicodeScalars.elementsEqual(once.unicodeScalars))
            #expect(longestRun(once) < 12)
        }
    }

    /// The length of the longest run of digits, by the contract's definition of a run.
    private func longestRun(_ text: String) -> Int {
        var (longest, current) = (0, 0)
        for scalar in text.unicodeScalars {
            current = scalar.properties.numericType == .decimal ? current + 1 : 0
            longest = max(longest, current)
        }
        return longest
    }

    @Test(
        "accepts 1 to 64 letters, digits, dots, hyphens and underscores as a node's name",
        arguments: [
            ("backend-1.example_a", true), (String(repeating: "a", count: 64), true), ("", false), ("a b", false),
            (String(repeating: "a", count: 65), false), ("é", false), ("a\"b", false), ("a\n", false),
        ])
    func nodes(name: String, valid: Bool) {
        #expect((AuditNode(name) != nil) == valid)
    }

    @Test("accepts 4 to 16 bytes as an approval's identifier")
    func approvals() {
        #expect(ApprovalIdentifier(bytes: [0x9F, 0, 1, 2])?.hex == "9f000102")
        #expect(ApprovalIdentifier(bytes: [1, 2, 3]) == nil)
        #expect(ApprovalIdentifier(bytes: [UInt8](repeating: 1, count: 17)) == nil)
    }
}

@Suite("Times in records")
struct AuditTimeTests {
    /// The seconds since 1970 in each argument come from `date -u -d … +%s`.
    @Test(
        "writes a time in RFC 3339, UTC, with three digits of fraction",
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

    @Test("writes every day of four centuries exactly as Foundation does")
    func foundationAgrees() {
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        for day in stride(from: -73_000, through: 73_000, by: 19) {
            let seconds = Double(day) * 86_400 + 43_199
            #expect(
                AuditTime(milliseconds: Int64(seconds) * 1000).text
                    == Date(timeIntervalSince1970: seconds).formatted(style))
        }
    }

    @Test("rounds a date down to milliseconds, and limits it to the supported range")
    func dates() {
        #expect(AuditTime(Date(timeIntervalSince1970: 1.0019)).milliseconds == 1001)
        #expect(AuditTime(Date(timeIntervalSince1970: -0.0001)).milliseconds == -1)
        #expect(AuditTime(Date(timeIntervalSince1970: .infinity)) == .latest)
        #expect(AuditTime(Date(timeIntervalSince1970: -.infinity)) == .earliest)
    }

    @Test(
        "accepts any number of fraction digits and any offset in a time that a person enters",
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
        "refuses text that is not a valid RFC 3339 time",
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
