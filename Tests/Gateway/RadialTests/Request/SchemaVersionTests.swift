import Radial
import Testing

@Suite("SchemaVersion")
struct SchemaVersionTests {
    private func version(_ text: String) throws -> SchemaVersion { try #require(SchemaVersion(text)) }

    @Test(
        "compares versions number by number",
        arguments: [
            ("1.1", "1.2"), ("1.2", "1.10"), ("1.9", "1.10"), ("1", "1.1"), ("0.9", "1"), ("1.2", "1.2.1"),
            ("1.99", "2"),
            ("0", "0.1"), ("1.2", "10"), ("1.99999999999999999999", "1.100000000000000000000"),
        ])
    func order(_ older: String, _ newer: String) throws {
        #expect(try version(older) < version(newer))
        #expect(try !(version(newer) < version(older)))
        #expect(try version(older) != version(newer))
    }

    @Test(
        "recognises the same version in another notation",
        arguments: [("1", "1.0"), ("1.0.0", "1"), ("01.2", "1.2"), ("1.02", "1.2"), ("0", "0.0"), ("1.20", "1.020")])
    func equal(_ one: String, _ other: String) throws {
        #expect(try version(one) == version(other))
        #expect(try !(version(one) < version(other)))
    }

    @Test(
        "accepts only numbers separated by points",
        arguments: ["", ".", "1.", ".1", "1..2", "v1", "1.2a", " 1.2", "1.2\n", "-1", "1,2", "١.٢", "1.2-beta"])
    func refused(_ text: String) {
        #expect(SchemaVersion(text) == nil)
    }

    @Test(
        "answers ResponseCode from 1.1 on, and TenderType from 1.2 on",
        arguments: [
            ("1.0", false, false), ("1", false, false), ("0.9", false, false), ("1.0.9", false, false),
            ("1.1", true, false),
            ("1.1.9", true, false), ("1.2", true, true), ("1.10", true, true), ("2", true, true), ("10.0", true, true),
        ])
    func elements(_ text: String, _ hasResponseCode: Bool, _ hasTenderType: Bool) throws {
        let version = try version(text)
        #expect(version.hasResponseCode == hasResponseCode)
        #expect(version.hasTenderType == hasTenderType)
    }

    @Test("treats a request without a version as 1.0")
    func absent() throws {
        #expect(try SchemaVersion.absent == version("1.0"))
    }
}
