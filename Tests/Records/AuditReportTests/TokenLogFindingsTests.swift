import AuditChain
import KeyTypes
import TestSupport
import Testing

@testable import AuditReport

@Suite("Findings of an HSM token's log")
struct TokenLogFindingsTests {
    private let decrypt = AuditEvent.decrypt(reference: nil)

    @Test("finds a last seal from over a day before the period ends or the page is made, but not after a stop before")
    func earlyEnd() async throws {
        var book = RecordBook()
        try book.add(FindingsTests.start, at: 1)
        try book.seal(at: 2)
        func found(from: Double = 0, madeAt: Double = 24 * 31) throws -> [Finding] {
            try book.counted(from: from).collectFindings(madeAt: RecordBook.time(madeAt)).findings
        }
        let end = try #require(try await FindingsTests.findings(book).first)
        #expect((end.kind, end.count, end.what) == (.sealsApart, nil, nil))
        #expect(end.since == RecordBook.time(2) && end.until == RecordBook.time(24 * 31))
        let page = try book.page()
        #expect(page.contains("The last seal is from 30 d 22 h before the period ended or this page was made. "))
        let verdict = try book.report(to: 24 * 31).objectValue?["verdict"]?.objectValue
        #expect(verdict?["early"]?.numberValue?.int == 1)
        #expect(try found(madeAt: 26) == [] && found(madeAt: 27).map(\.until) == [RecordBook.time(27)])
        #expect(try found(from: 4).count == 1)
        // An HSM token's log has a later seal, so the end was cut off.
        book.tokenUses = [ReconciliationTests.log([2, 100], of: .zero)]
        try await book.expectRecounted()
        #expect(try book.page().contains(" 1 seals in that time, of which this export has none. The last was at "))
        book.tokenUses = []
        // A node that stopped before the period may have been removed.
        try book.add(.stop, at: 3)
        try book.seal(at: 3)
        #expect(try await FindingsTests.findings(book).map(\.what) == ["stop"])
        #expect(try found(from: 3).count == 1 && found(from: 4) == [])
    }

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
        #expect(try book.page().contains("are lost. They would explain no more."))
        // One use fewer leaves room for another person's.
        book.tokenUses = [ReconciliationTests.log([5, 6])]
        try await book.expectRecounted()
        #expect(try book.page().contains("are lost. They would explain 1 more: "))
    }

    @Test(
        "names lost seals that came a minute after no use, and bounds the copy and the records after the last by the seals"
    )
    func lostSeals() async throws {
        var book = RecordBook()
        let minute = 1.0 / 60
        try book.add(FindingsTests.start, at: 0)
        try book.seal(at: 0.1)
        try book.add(decrypt, at: 0.2, by: "checkout", key: RecordBook.key, hsmToken: "primary")
        try book.add(FindingsTests.start, at: 100)
        try book.add(FindingsTests.restore(3, 7), at: 101, by: "bob")
        // Two ordinary seals, one 45 s after a use, and two without a use, of records that show none.
        let seals = ReconciliationTests.log([0.1, 20 + minute, 40 + minute, 50, 60 + 0.75 * minute, 80], of: .zero)
        book.tokenUses = [ReconciliationTests.log([0.2, 20, 40, 60]) + seals.dropFirst()]
        #expect(try await FindingsTests.findings(book, .usesBeyondLoss, .unrecordedUses).isEmpty)
        for text in [
            "made 5 seals, of which this export has none. 2 came about a minute after a use in no record, as ordinary seals do. "
                + "The others are heads that were given, or seals of records that show no use: 2026-01-03 02:00:00, "
                + "2026-01-03 12:00:45, 2026-01-04 08:00:00. The log",
            "node-1, which are lost; 2 of them show no use, as the log has none since the seal before theirs. They would "
                + "explain no more.",
            "The copy was made after 2026-01-01 00:12:00, the time of its last record, and before 2026-01-01 20:01:00, ",
            "and uses in no record after it are none: these records released no payment.",
        ] { #expect(try book.page().contains(text), "\(text)") }
        // A further use is one too many, whenever it was, and this one after the last seal.
        book.tokenUses = [ReconciliationTests.log([0.2, 20, 40, 60, 90]) + seals.dropFirst()]
        #expect(try await FindingsTests.findings(book, .usesBeyondLoss).map(\.count) == [1])
        #expect(
            try book.page().contains("the last seal was at 2026-01-04 08:00:00, and uses in no record after it are 1."))
        // One use fewer leaves no room for another: its seal then sealed a record that shows none.
        book.tokenUses = [ReconciliationTests.log([0.2, 20, 60]) + seals.dropFirst()]
        try await book.expectRecounted()
        #expect(try book.page().contains("since the seal before theirs. They would explain no more."))
    }

    @Test(
        "takes a Google Pay message for a possible use of each key that was tried, and the last for a use if it opened it"
    )
    func triedKeys() async throws {
        var (book, message) = (RecordBook(), GooglePayDecryption())
        message.triedKeys = [RecordBook.other, RecordBook.key]
        try book.add(.decryptGooglePay(message), at: 5, by: "checkout", key: RecordBook.key, hsmToken: "primary")
        try book.add(.decryptGooglePay(message), .refused(.decryptionFailed), at: 6, by: "checkout")
        try book.add(
            .decryptGooglePay(message), .refused(.hsmUnavailable), at: 7, by: "checkout", hsmWasNotReached: true)
        func log(_ hours: [Double], _ others: [Double]) -> [String] {
            ReconciliationTests.log(hours) + ReconciliationTests.log(others, of: RecordBook.other).dropFirst()
        }
        book.tokenUses = [log([5, 6], [5, 6])]
        #expect(try await FindingsTests.findings(book, .unrecordedUses, .uncountedUses).isEmpty)
        book.tokenUses = [log([6], [])]
        #expect(try await FindingsTests.findings(book, .uncountedUses).map(\.key) == [RecordBook.key])
        book.tokenUses = [log([5, 7], [7])]
        #expect(try await FindingsTests.findings(book, .unrecordedUses).map(\.count) == [1, 1])
    }

    @Test("finds operations that a key's type does not do, or that the log's format does not name")
    func operations() async throws {
        var book = RecordBook()
        for (key, algorithm) in [(RecordBook.key, KeyAlgorithm.ec), (RecordBook.other, .rsa)] {
            try book.add(.keyGenerate(key: KeyFacts(algorithm: algorithm, origin: .generated)), at: 1, key: key)
        }
        try book.seal(at: 1.1)
        let unknown = AuditDigest.of(Array("unknown".utf8))
        func log(_ operations: [(Double, AuditDigest, String)]) -> [String] {
            ReconciliationTests.log([])
                + operations.map { hour, key, operation in
                    ReconciliationTests.log([hour], of: key)[1].replacing("derive", with: operation)
                }
        }
        book.tokenUses = [
            log([
                (1, RecordBook.key, "derive"), (1, RecordBook.key, "sign"), (1, RecordBook.other, "decrypt"),
                (1, RecordBook.other, "unwrap"), (1, .zero, "sign"), (9, unknown, "derive"), (9, unknown, "decrypt"),
            ])
        ]
        #expect(try await FindingsTests.findings(book, .otherOperation).isEmpty)
        book.tokenUses = [
            log([
                (2, RecordBook.key, "decrypt"), (3, RecordBook.key, "unwrap"), (4, RecordBook.key, "unwrap"),
                (5, RecordBook.other, "derive"), (6, .zero, "derive"), (7, unknown, "wrap"),
            ])
        ]
        let found = try await FindingsTests.findings(book, .otherOperation)
        #expect(found.map(\.key) == [RecordBook.key, RecordBook.other, .zero, unknown])
        #expect(found.map(\.operations) == [["decrypt": 1, "unwrap": 2], ["derive": 1], ["derive": 1], ["wrap": 1]])
        #expect(found[0].count == 3 && found[0].since == RecordBook.time(2) && found[0].until == RecordBook.time(4))
        #expect(try book.page().contains("3<br>decrypt 1, unwrap 2</td>"))
    }

    @Test("explains uses by records of a clock that was ahead, whose times match none, and no more than these are")
    func wrongClock() async throws {
        var book = RecordBook()
        func use(at hours: Double) throws {
            try book.add(decrypt, at: hours, by: "checkout", key: RecordBook.key, hsmToken: "primary")
        }
        try use(at: 10)
        // A clock that is three hours ahead, from 10:30 to 11:30.
        for hours in [14.0, 14.2] { try use(at: hours) }
        try book.seal(at: 14.25)
        try use(at: 12)
        let (uses, seal) = ([10, 11, 11.2, 12.0], ReconciliationTests.log([11.25], of: .zero).dropFirst())
        book.tokenUses = [ReconciliationTests.log(uses) + seal]
        try await book.expectRecounted()
        #expect(try await FindingsTests.findings(book, .unrecordedUses, .uncountedUses, .usesBeyondLoss).isEmpty)
        let explained = try book.counted().reconciliation.explained(by: book.counted().incidents.findings.findings)
        #expect((explained.unexplained, explained.seals, explained.explainable) == (3, 1, 3))
        // One use more than these records explain, and uses at other times.
        book.tokenUses = [ReconciliationTests.log(uses + [11.1, 13, 14]) + seal]
        #expect(try await FindingsTests.findings(book, .usesBeyondLoss).map(\.count) == [1])
        #expect(try await FindingsTests.findings(book, .unrecordedUses).map(\.count) == [2])
        // A clock that was ahead by less than clocks may differ explains by its times.
        var slight = RecordBook()
        for seconds in [0.0, 8, 2] {
            try slight.add(
                decrypt, at: 10 + seconds / 3600, by: "checkout", key: RecordBook.key, hsmToken: "primary")
        }
        slight.tokenUses = [ReconciliationTests.log([10])]
        #expect(try await FindingsTests.findings(slight, .clockSetBack).count == 1)
        #expect(try await FindingsTests.findings(slight, .uncountedUses).map(\.count) == [2])
    }

    @Test("names the records of the same key nearest to uses without a record, and for seals those of any key")
    func nearest() async throws {
        var book = RecordBook()
        for (hours, key) in [(5.0, RecordBook.key), (6, RecordBook.other), (8, RecordBook.other), (9, RecordBook.key)] {
            try book.add(decrypt, at: hours, by: "checkout", key: key, hsmToken: "primary")
        }
        try book.seal(at: 9.5)
        book.tokenUses = [
            ReconciliationTests.log([5, 7, 9]) + ReconciliationTests.log([6, 8], of: RecordBook.other).dropFirst()
                + ReconciliationTests.log([7, 9.5], of: .zero).dropFirst()
        ]
        try await book.expectRecounted()
        let reconciliation = try book.counted().reconciliation
        func places(_ key: AuditDigest) -> [String?] {
            let (before, after) = reconciliation.nearest(to: RecordBook.time(7), of: key, in: 0)
            return [before, after].map { $0?.place.text }
        }
        #expect(places(RecordBook.key) == ["node-1 1", "node-1 4"])
        #expect(places(.zero) == ["node-1 2", "node-1 3"])
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
