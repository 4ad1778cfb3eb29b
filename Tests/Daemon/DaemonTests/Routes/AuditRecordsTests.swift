import AuditChain
import Foundation
import GRDB
import Ledger
import Refusals
import StrictJSON
import TestSupport
import Testing

@testable import Daemon

@Suite("GET /v1/audit/records")
struct AuditRecordsTests {
    private struct Page {
        let sequences: [Int]
        let next: String?
    }

    private func page(_ fixture: RecordRoutesFixture, _ query: [String: String]) async throws -> Page {
        let answer = try await fixture.audit.records(RecordRoutesFixture.request(query))
        let body = try #require(try JSONValue(parsing: try await answer.bytes).objectValue)
        let items = try #require(body["items"]?.arrayValue)
        return Page(
            sequences: try items.map { try #require($0.objectValue?["sequence"]?.numberValue?.int) },
            next: body["next"]?.stringValue)
    }

    @Test("lists the newest records first, and with its cursors lists every record once")
    func listsEveryRecordOnce() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...30)
        var sequences: [Int] = []
        var query = ["limit": "7"]
        var pages = 0
        repeat {
            let page = try await page(fixture, query)
            #expect(page.sequences.count == min(7, 30 - sequences.count))
            sequences += page.sequences
            query["cursor"] = page.next
            pages += 1
        } while query["cursor"] != nil
        #expect(sequences == (1...30).reversed())
        #expect(pages == 5)
    }

    @Test("lists the oldest first on request")
    func oldestListedFirst() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...30)
        let first = try await page(fixture, ["order": "oldest", "limit": "20"])
        #expect(first.sequences == Array(1...20))
        #expect(first.next == "20")
        // Reading the first page has added a record.
        let second = try await page(fixture, ["order": "oldest", "limit": "20", "cursor": "20"])
        #expect(second.sequences == Array(21...31))
        #expect(second.next == nil)
    }

    @Test("returns 100 records a page by default, and at most 1,000")
    func pageLimits() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...130)
        #expect(try await page(fixture, [:]).sequences.count == 100)
        #expect(try await page(fixture, ["limit": "1000"]).sequences.count == 131)
    }

    @Test("returns the stored lines, byte for byte")
    func storedLinesVerbatim() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...3)
        let lines = try await fixture.lines()
        let answer = try await fixture.audit.records(RecordRoutesFixture.request(["order": "oldest"]))
        #expect(try await answer.text == "{\"items\":[" + lines.joined(separator: ",") + "],\"next\":null}")
        #expect(answer.header("Content-Type") == "application/json")
    }

    @Test("returns an empty page of an empty record")
    func emptyRecord() async throws {
        let fixture = try await RecordRoutesFixture()
        let answer = try await fixture.audit.records(RecordRoutesFixture.request())
        #expect(try await answer.text == "{\"items\":[],\"next\":null}")
    }

    private static func minute(_ number: Int) -> String {
        AuditTime(RecordRoutesFixture.noon.addingTimeInterval(Double(number) * 60)).text
    }

    private static let filterCases: [([String: String], [Int])] = [
        (["since": minute(28)], [28, 29, 30]), (["until": minute(3)], [1, 2]),
        (["since": minute(5), "until": minute(7)], [5, 6]),
        (["key": RecordRoutesFixture.key(0).hex, "until": minute(10)], [3, 6, 9]),
        (["key": String(RecordRoutesFixture.key(0).hex.prefix(8)).uppercased(), "since": minute(28)], [30]),
        (["key": RecordRoutesFixture.key(1).base64, "until": minute(5)], [1, 4]),
        (["merchant": "merchant.one", "since": minute(9)], [9, 10]),
        (["caller": "billing", "since": minute(27)], [28, 30]), (["caller": "1001", "until": minute(4)], [1, 3]),
        (["outcome": "signature_invalid"], [5, 10, 15, 20, 25, 30]),
        (["outcome": "ok", "until": minute(7)], [1, 2, 3, 4, 6]), (["outcome": "repeat"], []),
        (["transaction": AuditDigest.of([17, 0]).hex], [17]),
        (["transaction": AuditDigest.of([17, 0]).hex.uppercased()], [17]),
        (["caller": "billing", "merchant": "merchant.two", "outcome": "signature_invalid"], [20, 30]),
        (["merchant": "merchant.three"], []),
    ]

    @Test("applies each filter", arguments: filterCases)
    func eachFilter(query: [String: String], sequences: [Int]) async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...30)
        // Reading adds a record too. Its time is a day later, so `until` excludes it.
        let bounded = query["until"] == nil ? query.merging(["until": Self.minute(100)]) { $1 } : query
        #expect(try await page(fixture, bounded.merging(["order": "oldest"]) { $1 }).sequences == sequences)
    }

    @Test("combines filters and pages")
    func filteredPages() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...30)
        let first = try await page(fixture, ["outcome": "signature_invalid", "limit": "4"])
        #expect(first.sequences == [30, 25, 20, 15])
        let second = try await page(
            fixture, ["outcome": "signature_invalid", "limit": "4", "cursor": try #require(first.next)])
        #expect(second.sequences == [10, 5])
        #expect(second.next == nil)
    }

    @Test(
        "refuses an impossible value by its parameter's name",
        arguments: [
            ("since", "yesterday"), ("since", ""), ("until", "2026-01-31"), ("until", "2026-02-30T00:00:00Z"),
            ("key", "abc"), ("key", String(repeating: "g", count: 64)), ("outcome", "success"),
            ("transaction", "17"), ("limit", "0"), ("limit", "1001"), ("limit", "ten"), ("limit", "-1"),
            ("cursor", "0"), ("cursor", "next"), ("order", "newest first"), ("merchant", ""), ("caller", ""),
        ])
    func wrongValues(name: String, value: String) async throws {
        let fixture = try await RecordRoutesFixture()
        let error = await #expect(throws: Refusal.self) {
            _ = try await fixture.audit.records(RecordRoutesFixture.request([name: value]))
        }
        #expect(error?.code == .malformedRequest)
        #expect(error?.details == name)
        #expect(error?.message.contains(name) == true)
        #expect(try await fixture.ledger.head().sequence == 0)
    }

    @Test("refuses an unknown parameter without repeating it")
    func unknownParameter() async throws {
        let fixture = try await RecordRoutesFixture()
        let error = await #expect(throws: Refusal.self) {
            _ = try await fixture.audit.records(RecordRoutesFixture.request(["4111111111111111": "x"]))
        }
        #expect(error?.code == .malformedRequest)
        #expect(error?.details?.contains("merchant") == true)
        #expect(error?.details?.contains("4111") == false && error?.message.contains("4111") == false)
    }

    @Test("records each reading, with the reader and the number of records shown")
    func recordsReadings() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...30)
        _ = try await page(fixture, ["limit": "7"])
        let entry = try await fixture.newest
        #expect(entry.sequence == 31)
        #expect(entry.event == "audit_list")
        #expect(entry.caller?.name?.text == "auditor")
        #expect(entry.details["records"]?.numberValue?.int == 7)
    }

    @Test("shows nothing if the reading cannot be recorded")
    func refusesUnrecorded() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...3)
        fixture.reads.breakDown()
        let error = await #expect(throws: Refusal.self) {
            _ = try await fixture.audit.records(RecordRoutesFixture.request())
        }
        #expect(error?.code == .ledgerUnavailable)
    }

    @Test("names a record that another program made unreadable, and keeps it out of the answer")
    func unreadableRecord() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...5)
        try fixture.overwrite(3, with: "\"},{\"forged\":true")
        let error = await #expect(throws: Refusal.self) {
            _ = try await fixture.audit.records(RecordRoutesFixture.request())
        }
        #expect(error?.code == .ledgerUnavailable)
        #expect(error?.details == "record 3")
        #expect(try await page(fixture, ["cursor": "3"]).sequences == [2, 1])
    }
}

extension RecordRoutesFixture {
    /// Overwrites a record as an operator with a shell could in the ledger's file.
    func overwrite(_ sequence: Int, with line: String) throws {
        try DatabaseQueue(path: path).write { db in
            try db.execute(
                sql: "UPDATE audit_record SET line = ? WHERE sequence = ?", arguments: [Data(line.utf8), sequence])
            #expect(db.changesCount == 1)
        }
    }
}
