import AuditChain
import Testing

@Suite("Filters of the audit record")
struct AuditFilterTests {
    /// Each filter with a condition that the record of `GoldenLineTests.first` meets, and one that it does not meet.
    static let conditions: [(String, holds: String, fails: String)] = [
        ("since", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.001Z"),
        ("until", "2026-01-31T12:00:00.001Z", "2026-01-31T12:00:00Z"),
        ("key", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
        ("key", "0001020304050607", "0001020304050608"),
        ("key", "000102030405060708090A0B0C0D0E0F", "000102030405060708090A0B0C0D0E00"),
        ("merchant", "merchant.com.example", "merchant.com.exampl"),
        ("caller", "checkout", "ops"),
        ("caller", "1001", "1002"),
        ("outcome", "ok", "forbidden"),
        (
            "transaction", "202122232425262728292A2B2C2D2E2F303132333435363738393a3b3c3d3e3f",
            "302122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
        ),
    ]

    @Test("keeps the records that meet a condition, and no others", arguments: conditions.indices)
    func matches(index: Int) throws {
        let (name, holds, fails) = Self.conditions[index]
        let entry = try AuditEntry(line: Array(GoldenLineTests.first.utf8))
        #expect(try AuditFilter([name: holds]).matches(entry))
        #expect(try !AuditFilter([name: fails]).matches(entry))
    }

    @Test("requires every condition, and keeps every record without conditions")
    func all() throws {
        let entry = try AuditEntry(line: Array(GoldenLineTests.first.utf8))
        #expect(AuditFilter().matches(entry))
        #expect(try AuditFilter(["outcome": "ok", "caller": "checkout"]).matches(entry))
        #expect(try !AuditFilter(["outcome": "ok", "caller": "ops"]).matches(entry))
    }

    @Test(
        "excludes a record that lacks the member in the condition",
        arguments: ["key", "caller", "merchant", "transaction"])
    func absent(name: String) throws {
        var head = ChainHead(node: try required(AuditNode("n")))
        let entry = try AuditEntry(line: head.append(AuditRecord(time: .earliest, event: .stop)).bytes)
        let holds = try required(Self.conditions.first { $0.0 == name }).holds
        #expect(try !AuditFilter([name: holds]).matches(entry))
    }

    @Test(
        "names the filter whose condition it cannot parse",
        arguments: [
            ("since", "yesterday"), ("until", "2026-01-31"), ("key", "0001020"), ("key", "xyzxyzxyz"),
            ("key", String(repeating: "0", count: 65)), ("key", String(repeating: "+", count: 44)), ("outcome", "fine"),
            ("transaction", "20212223"), ("colour", "red"),
        ])
    func unreadable(name: String, text: String) throws {
        do {
            _ = try AuditFilter([name: text])
            Issue.record("\(name) was taken")
        } catch {
            #expect(error.name == name)
            #expect(name == "colour" || error.description.hasPrefix(name))
        }
    }
}
