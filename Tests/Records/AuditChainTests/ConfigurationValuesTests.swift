import AuditChain
import StrictJSON
import TestSupport
import Testing

@Suite("Configuration values in records")
struct ConfigurationValuesTests {
    /// The `details` member of each record that these values produce.
    private func details(_ values: ConfigurationValues) throws -> [JSONObject] {
        var head = ChainHead(node: try required(AuditNode("n")))
        return try values.events().map { event in
            try AuditEntry(line: head.append(AuditRecord(time: AuditTime(milliseconds: 0), event: event)).bytes).details
        }
    }

    private func pairs(_ details: JSONObject) -> [String] {
        (details["values"]?.objectValue?.members ?? []).map { "\($0.name)=\($0.value.stringValue ?? "?")" }
    }

    @Test("orders values by the bytes of their names, for any input order")
    func sorted() throws {
        var values = ConfigurationValues()
        for name in ["b", "access.2.name", "access.10.name", "access.1.uid", "access.1.name", "Z"] {
            values.set(name, ConfigurationValue(1))
        }
        #expect(
            pairs(try details(values)[0]) == [
                "Z=1", "access.1.name=1", "access.1.uid=1", "access.10.name=1", "access.2.name=1", "b=1",
            ])
    }

    @Test("cleans names and texts like other text, shortens a text to 256 scalars, and never shortens a digest")
    func cleaned() throws {
        var values = ConfigurationValues()
        values.set("a\u{1B}", ConfigurationValue("4111 1111 1111 1111\n\u{202E}"))
        values.set("b", ConfigurationValue(String(repeating: "é", count: 257)))
        values.set("c", ConfigurationValue(String(repeating: "é", count: 256)))
        let digits = [UInt8](repeating: 0x12, count: 32)
        values.set("d", ConfigurationValue(try required(AuditDigest(bytes: digits))))
        #expect(
            pairs(try details(values)[0]) == [
                "a\u{FFFD}=**** **** **** ****\u{FFFD}\u{FFFD}", "b=" + String(repeating: "é", count: 255) + "…",
                "c=" + String(repeating: "é", count: 256), "d=" + String(repeating: "12", count: 32),
            ])
    }

    // Three digests of 64 digits with two separators have 196 characters; four would have 262, over the limit of 256.
    @Test("continues a list under another name when the next element does not fit, and never splits an element")
    func lists() throws {
        let digests = (0..<7).map { AuditDigest.of([$0]) }
        var values = ConfigurationValues()
        values.set("few", list: ["a", "b"].map { ConfigurationValue($0) })
        values.set("many", list: digests.map { ConfigurationValue($0) })
        values.set("none", list: [])
        #expect(
            pairs(try details(values)[0]) == [
                "few=a, b", "many=" + digests[..<3].map(\.hex).joined(separator: ", "),
                "many.2=" + digests[3..<6].map(\.hex).joined(separator: ", "), "many.3=" + digests[6].hex, "none=",
            ])
    }

    /// Returns `count` values of 268 bytes each, the comma included. 28 values have 7,504 bytes; 29 have more than
    /// 7,680.
    private func wide(_ count: Int) -> ConfigurationValues {
        var values = ConfigurationValues()
        for number in 0..<count {
            let digits = String(number)
            let name = "n." + String(repeating: "0", count: 4 - digits.count) + digits
            values.set(name, ConfigurationValue(String(repeating: "x", count: 256)))
        }
        return values
    }

    @Test("splits values that exceed one record into several records, and numbers the parts")
    func parts() throws {
        let details = try details(wide(100))
        #expect(details.map { $0["part"]?.numberValue?.int } == [1, 2, 3, 4])
        #expect(details.map { $0["parts"]?.numberValue?.int } == [4, 4, 4, 4])
        #expect(details.map { pairs($0).count } == [28, 28, 28, 16])
        #expect(details.allSatisfy { $0["omitted"] == nil })
        let names = details.flatMap { $0["values"]?.objectValue?.members.map(\.name) ?? [] }
        #expect(names.count == 100 && names.first == "n.0000" && names.last == "n.0099" && names == names.sorted())
    }

    @Test("keeps a recorded line within 8 KiB, for syslog")
    func lengths() throws {
        var head = try required(
            ChainHead(
                node: try required(AuditNode(String(repeating: "n", count: 64))), sequence: 999_999_999_999_999_000,
                hash: .zero))
        let lines = wide(900).events().map { head.append(AuditRecord(time: .latest, event: $0)).bytes.count }
        #expect(lines.allSatisfy { $0 > 7_500 && $0 <= 8_192 })
    }

    // The limit of 32 parts holds 32 * 28 = 896 values.
    @Test("writes at most 32 parts, and counts the omitted values in the last one")
    func bounded() throws {
        let full = try details(wide(896))
        #expect(full.count == 32 && full.allSatisfy { $0["omitted"] == nil })
        let more = try details(wide(900))
        #expect(more.count == 32 && more.map { pairs($0).count } == full.map { pairs($0).count })
        #expect(more.dropLast().allSatisfy { $0["omitted"] == nil })
        #expect(more.last?["omitted"]?.numberValue?.int == 4)
    }

    @Test("keeps one of several names that are equal after cleaning, and counts the others as omitted")
    func indistinct() throws {
        var values = ConfigurationValues()
        values.set("tokens.123456789012", ConfigurationValue("a"))
        values.set("tokens.210987654321", ConfigurationValue("b"))
        let details = try details(values)
        #expect(details.count == 1 && pairs(details[0]) == ["tokens.************=b"])
        #expect(details[0]["omitted"]?.numberValue?.int == 1)
    }

    @Test("records a configuration without values")
    func empty() throws {
        let details = try details(ConfigurationValues())
        #expect(details.count == 1 && pairs(details[0]).isEmpty)
        #expect(details[0]["part"]?.numberValue?.int == 1 && details[0]["parts"]?.numberValue?.int == 1)
    }
}
