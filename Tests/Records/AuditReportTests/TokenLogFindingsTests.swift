import AuditChain
import TestSupport
import Testing

@testable import AuditReport

@Suite("Findings of an HSM token's log")
struct TokenLogFindingsTests {
    private let decrypt = AuditEvent.decrypt(reference: nil)

    @Test("finds recorded uses that a log lacks, and a log that does not cover the period")
    func lacking() async throws {
        var book = RecordBook()
        for hour in [10.0, 11, 12] {
            try book.add(decrypt, at: hour, by: "checkout", key: RecordBook.key, hsmToken: "primary")
        }
        book.tokenUses = [ReconciliationTests.log([10])]
        let lacking = try await FindingsTests.findings(book, .uncountedUses)
        #expect(lacking.map(\.count) == [2] && lacking[0].key == RecordBook.key)
        #expect(lacking[0].since == RecordBook.time(11) && lacking[0].until == RecordBook.time(12))
        #expect(try book.page().contains("log lacks 2 uses that the record has.</strong>"))
        #expect(try await FindingsTests.findings(book, .shortLog).isEmpty)
        // A log that begins on the second day of the period, and one that ends before a recorded use.
        for (time, other, outside) in [
            ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", 3), ("2026-02-01T00:00:00Z", "2026-01-01T11:30:00Z", 1),
        ] {
            book.tokenUses = [[ReconciliationTests.log([])[0].replacing(time, with: other)]]
            let short = try await FindingsTests.findings(book, .shortLog)
            #expect(short.map(\.count) == [outside], "\(other)")
            #expect(try book.page().contains("Logs of HSM tokens that do not cover the period: 1."))
        }
    }

    @Test("finds more uses in the time of a loss than records were lost, and lists them all by hour")
    func beyondLoss() async throws {
        var book = RecordBook()
        try book.add(FindingsTests.start, at: 0)
        try book.add(decrypt, at: 5, by: "checkout", key: RecordBook.key, hsmToken: "primary")
        try book.add(FindingsTests.start, at: 8)
        try book.add(FindingsTests.restore(3, 4), at: 9, by: "bob")
        book.tokenUses = [ReconciliationTests.log([5, 5.5, 6, 6.5, 7, 7.5])]
        let found = try await FindingsTests.findings(book, .usesBeyondLoss)
        #expect(found.map(\.count) == [3] && found[0].keys == [RecordBook.key.base64: 5])
        #expect(found[0].since == RecordBook.time(5.5) && found[0].until == RecordBook.time(7.5))
        let day = try #require(
            try book.counted().reconciliation.unexplainedDays(of: 0, book.counted().incidents.findings.findings).first)
        #expect(day.hours.map(\.uses) == [1, 2, 2] && day.certain.isEmpty)
        // As many uses as were lost are no finding, and are not listed.
        book.tokenUses = [ReconciliationTests.log([5, 6, 7])]
        #expect(try await FindingsTests.findings(book, .usesBeyondLoss).isEmpty)
    }

    @Test("counts the uses of each key that only failed requests explain")
    func absorbed() async throws {
        var book = RecordBook()
        try book.add(decrypt, at: 5, by: "checkout", key: RecordBook.key, hsmToken: "primary")
        for hour in [6.0, 7, 8] {
            try book.add(decrypt, .refused(.hsmUnavailable), at: hour, by: "checkout", key: RecordBook.key)
        }
        book.tokenUses = [ReconciliationTests.log([5, 6, 8, 12])]
        try await book.expectRecounted()
        let comparison = try #require(try book.counted().reconciliation.comparisons[0].first)
        #expect(comparison.perhaps == 2 && comparison.unexplained == 1 && comparison.missing == 0)
    }
}
