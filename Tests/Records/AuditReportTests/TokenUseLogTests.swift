import AuditChain
import Foundation
import TestSupport
import Testing

@testable import AuditReport

@Suite("An HSM token's log of key uses")
struct TokenUseLogTests {
    private static let header =
        #"{"format":"paytokend-token-uses","version":1,"kind":"log","since":"2026-01-01T00:00:00Z","until":"2026-02-01T00:00:00Z"}"#
    private static let key = AuditDigest.of("a key".utf8)

    private static func use(_ time: String = "2026-01-10T12:00:00Z", key: String = key.base64) -> String {
        #"{"time":"\#(time)","publicKeyHash":"\#(key)","operation":"derive"}"#
    }

    private static func read(_ lines: [String]) throws(TokenUseLogError) -> TokenUseLog {
        var log = try TokenUseLog(header: Array((lines.first ?? "").utf8))
        for line in lines.dropFirst() { try log.take(line: Array(line.utf8)) }
        try log.finish()
        return log
    }

    @Test("counts a log's uses by key, and reads a counter's value by key")
    func counted() throws {
        let other = AuditDigest.of("another".utf8)
        let log = try Self.read([
            Self.header, Self.use(), Self.use("2026-01-10T23:59:59.999Z"), Self.use("2026-01-11T00:00:00+00:00"),
            Self.use(key: other.base64), #"{"end":4}"#,
        ])
        #expect(log.uses == [Self.key: 3, other: 1])
        #expect(log.times[Self.key]?.count == 3 && log.times[other]?.count == 1)
        let counter = try Self.read([
            Self.header.replacing(#""log""#, with: #""counter""#),
            #"{"publicKeyHash":"\#(Self.key.base64)","uses":4096}"#, #"{"end":1}"#,
        ])
        #expect(counter.kind == .counter)
        #expect(counter.uses == [Self.key: 4096])
    }

    @Test("refuses a truncated, changed or unknown log, and names the faulty line")
    func refused() {
        let cases: [([String], TokenUseLogError)] = [
            ([""], .notJSON(line: 1)), (["{}"], .format),
            ([Self.header.replacing(#""version":1"#, with: #""version":2"#)], .format),
            ([Self.header.replacing(#""log""#, with: #""guess""#)], .member("kind", line: 1)),
            ([Self.header.replacing("2026-02-01", with: "2026-01-01")], .member("until", line: 1)),
            ([Self.header.replacing(#""kind""#, with: #""pin":"1","kind""#)], .unknown("pin", line: 1)),
            ([Self.header.replacing(#""kind""#, with: #""node":"no/de","kind""#)], .member("node", line: 1)),
            ([Self.header], .unended), ([Self.header, Self.use()], .unended),
            ([Self.header, #"{"end":1}"#], .count(said: 1, found: 0)),
            ([Self.header, Self.use(), #"{"end":0}"#], .count(said: 0, found: 1)),
            ([Self.header, #"{"end":0}"#, Self.use()], .afterEnd(line: 3)),
            ([Self.header, Self.use("2026-02-01T00:00:00Z")], .member("time", line: 2)),
            ([Self.header, Self.use("2025-12-31T23:59:59Z")], .member("time", line: 2)),
            ([Self.header, Self.use("yesterday")], .member("time", line: 2)),
            ([Self.header, Self.use(key: "abcd")], .member("publicKeyHash", line: 2)),
            ([Self.header, "not json"], .notJSON(line: 2)),
            ([Self.header, "[" + String(repeating: "1,", count: 4000) + "1]"], .notJSON(line: 2)),
            (
                [
                    Self.header.replacing(#""log""#, with: #""counter""#),
                    #"{"publicKeyHash":"\#(Self.key.base64)","uses":-1}"#,
                ], .member("uses", line: 2)
            ),
            (
                [Self.header.replacing(#""log""#, with: #""counter""#)]
                    + Array(repeating: #"{"publicKeyHash":"\#(Self.key.base64)","uses":1}"#, count: 2),
                .member("uses", line: 3)
            ),
        ]
        for (lines, error) in cases {
            #expect(throws: error, "\(lines)") { try Self.read(lines) }
        }
    }

    @Test("detects overlapping logs, and accepts logs of different nodes, HSM tokens or times")
    func overlapping() throws {
        func log(_ members: String, _ since: String = "2026-01-01") throws -> TokenUseLog {
            try TokenUseLog(
                header: Array(
                    Self.header.replacing(#""kind""#, with: members + #""kind""#).replacing("2026-01-01", with: since)
                        .utf8))
        }
        let (a, b) = (try log(#""node":"a","#), try log(#""node":"b","#))
        #expect(a.overlaps(a) && !a.overlaps(b))
        #expect(try a.overlaps(log("")) && log("").overlaps(b))
        #expect(try !log(#""token":"one","#).overlaps(log(#""token":"two","#)))
        #expect(try log(#""token":"one","#).overlaps(a))
    }
}

@Suite("An HSM token's count compared with the audit record")
struct ReconciliationTests {
    private static let key = AuditDigest.of("a key".utf8)
    private static let time = AuditTime(rfc3339: "2026-01-10T12:00:00Z")!

    private static func log(uses: Int, _ members: String = "") throws -> TokenUseLog {
        var log = try TokenUseLog(
            header: Array(
                (#"{"format":"paytokend-token-uses","version":1,"kind":"counter",\#(members)"since":"2026-01-01T00:00:00Z","#
                    + #""until":"2026-02-01T00:00:00Z"}"#).utf8))
        try log.take(line: Array(#"{"publicKeyHash":"\#(key.base64)","uses":\#(uses)}"#.utf8))
        return log
    }

    /// Returns the comparison of these records of node `a` with the log.
    private static func reconciled(_ records: [AuditRecord], _ log: TokenUseLog) throws -> Reconciliation {
        let period = try #require(ReportPeriod(since: .earliest, until: .latest))
        var builder = ReportBuilder(period: period, tokenUses: [log])
        var head = ChainHead(node: try #require(AuditNode("a")))
        for record in records { builder.count(line: head.append(record).bytes) }
        _ = builder.beginThirdPass()
        return builder.reconciliation
    }

    private static func record(
        _ event: AuditEvent, _ outcome: AuditOutcome = .ok, token: String? = nil, unreached: Bool = false,
        at time: AuditTime = time
    ) -> AuditRecord {
        AuditRecord(
            time: time, event: event, outcome: outcome, publicKeyHash: key, hsmToken: token.map { AuditText($0) },
            hsmWasNotReached: unreached)
    }

    private static let decrypt = AuditEvent.decrypt(reference: nil)

    /// Each event and outcome with the least and the greatest number of key uses that it can stand for.
    private static let cases: [(AuditRecord, Int, Int)] = [
        (record(decrypt, .ok, token: "primary"), 1, 1), (record(decrypt, .repeated, token: "primary"), 1, 1),
        (record(decrypt, .refused(.amountMismatch), token: "primary"), 1, 1),
        (record(decrypt, .refused(.transactionReplayed), token: "primary"), 1, 1),
        (record(decrypt, .refused(.transactionReplayed)), 0, 0),
        (record(decrypt, .refused(.signatureInvalid)), 0, 0), (record(decrypt, .refused(.keyNotActive)), 0, 0),
        (record(decrypt, .refused(.decryptionFailed)), 0, 1), (record(decrypt, .refused(.hsmUnavailable)), 0, 1),
        (record(.tlsSignature(TLSSignatureDetails()), .ok, token: "primary"), 1, 1),
        (record(.tlsSignature(TLSSignatureDetails()), .refused(.hsmUnavailable)), 0, 1),
        (record(decrypt, .refused(.hsmUnavailable), unreached: true), 0, 0),
        (record(.tlsSignature(TLSSignatureDetails()), .refused(.deadlineExceeded), unreached: true), 0, 0),
        (record(.keyProof(certificate: nil), .ok, token: "primary"), 1, 1),
        (record(.keyProof(certificate: nil), .refused(.decryptionFailed), token: "primary"), 0, 1),
        (record(.keyProof(certificate: nil), .refused(.hsmUnavailable), token: "primary", unreached: true), 0, 0),
        (record(.keyProof(certificate: nil), .refused(.ledgerUnavailable), token: "primary"), 0, 1),
        (record(.keyProof(certificate: nil), .refused(.invalidState)), 0, 0),
        (record(.csrCreate), 1, 1), (record(.csrCreate, .refused(.hsmUnavailable), token: "primary"), 0, 1),
        (record(.csrCreate, .refused(.hsmUnavailable)), 0, 0), (record(.keyGenerate()), 0, 2),
        (record(.keyGenerate(), .refused(.hsmUnavailable), token: "primary"), 0, 2),
        (record(.keyImport(certificate: nil, approval: nil), .refused(.certificateUnsuitable)), 0, 0),
        (record(.keyAdopt(approval: nil)), 0, 2), (record(.keyAdopt(approval: nil), .refused(.invalidState)), 0, 0),
        (record(.verify), 0, 0), (record(.keyStateChange(KeyStateChange(from: nil, to: .active))), 0, 0),
    ]

    @Test("counts each record as a certain use, a possible use or no use of its key", arguments: cases.indices)
    func bounds(index: Int) throws {
        let (record, least, most) = Self.cases[index]
        let found = try Self.reconciled([record], Self.log(uses: 0)).recorded[0][Self.key] ?? .init()
        #expect((found.least, found.most) == (least, most))
    }

    @Test("reports uses above the greatest number as unrecorded, and uses below the least number as uncounted")
    func differences() throws {
        let records = [
            Self.record(Self.decrypt, .ok, token: "primary"), Self.record(Self.decrypt, .ok, token: "primary"),
            Self.record(Self.decrypt, .refused(.hsmUnavailable)),
        ]
        for (counted, unexplained, missing) in [(2, 0, 0), (3, 0, 0), (4, 1, 0), (44, 41, 0), (1, 0, 1), (0, 0, 2)] {
            let found = try Self.reconciled(records, Self.log(uses: counted)).comparisons[0]
            #expect(found.map(\.unexplained) == [unexplained])
            #expect(found.map(\.missing) == [missing])
        }
    }

    /// Returns a log of uses, given by their hours from the start of a ``RecordBook``.
    static func log(_ hours: [Double], of key: AuditDigest = RecordBook.key) -> [String] {
        let header = #"{"format":"paytokend-token-uses","version":1,"kind":"log","token":"primary","#
        let days = #""since":"2026-01-01T00:00:00Z","until":"2026-02-01T00:00:00Z"}"#
        return [header + days]
            + hours.map { hour in
                #"{"time":"\#(RecordBook.time(hour).text)","publicKeyHash":"\#(key.base64)","operation":"derive"}"#
            }
    }

    @Test("takes the use nearest to a record, also across an hour's end, or to a checkpoint as the recorded one")
    func nearest() async throws {
        var book = RecordBook()
        let second = 1.0 / 3600
        try book.add(
            Self.decrypt, at: 13 + second, by: "checkout", key: RecordBook.key, hsmToken: "primary")
        book.tokenUses = [Self.log([7, -2, 6, 40].map { 13 + $0 * second })]
        try await book.expectRecounted()
        #expect(try Self.unexplained(book) == [[13 + 6 * second, 13 + 40 * second].map(RecordBook.time)])
        // A call without an answer may have made the last of these uses.
        try book.add(Self.decrypt, .refused(.hsmUnavailable), at: 13 + 39 * second, by: "checkout", key: RecordBook.key)
        try await book.expectRecounted()
        #expect(try Self.unexplained(book) == [[13 + 6 * second, 13 + 7 * second].map(RecordBook.time)])
        // A use more than thirty seconds before its record, or twenty after it, has none.
        try book.add(.csrCreate, at: 15, by: "alice", key: RecordBook.other, hsmToken: "primary")
        for (near, far) in [(-30.0, -30.001), (20, 20.001)] {
            book.tokenUses = [Self.log([15 + near * second], of: RecordBook.other)]
            #expect(try book.counted().reconciliation.unexplained == 0)
            book.tokenUses = [Self.log([15 + far * second], of: RecordBook.other)]
            try await book.expectRecounted()
            #expect(try Self.unexplained(book) == [[15 + far * second, 15 + far * second].map(RecordBook.time)])
        }
        try book.seal(at: 16)
        book.tokenUses = [Self.log([16, 16.5, 17], of: .zero)]
        try await book.expectRecounted()
        #expect(try Self.unexplained(book) == [[16.5, 16.5], [17, 17]].map { $0.map(RecordBook.time) })
    }

    /// Returns the first and the last unexplained use of each hour of the first day.
    private static func unexplained(_ book: RecordBook) throws -> [[AuditTime]] {
        let reconciliation = try book.counted().reconciliation
        let day = try #require(reconciliation.unexplainedDays(of: 0, []).first)
        return day.hours.map { [$0.first, $0.last] }
    }

    @Test("shows a loss's last seal by the log of the audit key, and when the node served again")
    func sealsOfLoss() async throws {
        var book = RecordBook()
        try book.add(FindingsTests.start, at: 0)
        try book.seal(at: 0.1)
        try book.add(Self.decrypt, at: 0.2, by: "checkout", key: RecordBook.key, hsmToken: "primary")
        try book.add(FindingsTests.start, at: 100)
        let restore = LedgerRestore(
            ledgerSequence: 3, hsmTokenSequence: 41, servedFrom: RecordBook.time(101.5), reason: nil)
        try book.add(.ledgerAcceptRestore(restore), at: 101, by: "bob")
        func row() throws -> String {
            let page = try book.page()
            let start = try #require(page.range(of: "failed before an older ledger was taken into service")).upperBound
            return String(page[start..<(try #require(page[start...].range(of: "</tr>"))).lowerBound])
        }
        func times(_ since: String, _ length: String) -> String {
            [since, "2026-01-05 05:30:00"].map { "<td><span class=\"t\">\($0)</span></td>" }.joined()
                + "<td>at least 1 h 30 min, at most \(length)</td>"
        }
        try await book.expectRecounted()
        #expect(try row().contains(times("2026-01-01 00:12:00", "4 d 6 h")))
        book.tokenUses = [Self.log([0.1, 50, 99, 100.5], of: .zero)]
        try await book.expectRecounted()
        #expect(try row().contains(times("2026-01-05 03:00:00", "2 h 30 min")))
        #expect(
            try book.page().contains(
                "in that time node node-1 made 2 seals, of which this export has none. The others are heads that were given, "
                    + "or seals of records that show no use: 2026-01-03 02:00:00, 2026-01-05 03:00:00."))
        // Another node answers a request for a head eight seconds before the second of these seals.
        try book.add(.auditHead(), on: "node-2", at: 99 - 8.0 / 3600, by: "dora")
        try await book.expectRecounted()
        #expect(
            try book.page().contains(
                "2026-01-05 03:00:00, when dora asked (node-2 1). The others are heads that were given, or seals of records "
                    + "that show no use: 2026-01-03 02:00:00."))
    }

    @Test("names the hours of a day with uses that no record explains, and the records nearest to these uses")
    func hours() async throws {
        var book = RecordBook()
        func use(at hours: Double, _ outcome: AuditOutcome = .ok, on node: String = "node-1") throws {
            try book.add(
                Self.decrypt, outcome, on: node, at: 240 + hours, by: "checkout", key: RecordBook.key,
                hsmToken: outcome == .ok ? "primary" : nil)
        }
        try book.add(.verify, on: "node-2", at: 240 + 11.9, by: "checkout")
        for hours in [12.5, 15] { try use(at: hours) }
        // A call without an answer explains no use that is six minutes away.
        try use(at: 15.1, .refused(.hsmUnavailable))
        try use(at: 18)
        try book.add(.verify, on: "node-2", at: 240 + 12.9, by: "checkout")
        // Three uses from 12:10 to 12:30, of which the last is recorded, two at 15:00 and three at 18:00.
        book.tokenUses = [Self.log([730, 731, 750, 900, 900, 1080, 1080, 1080].map { 240 + Double($0) / 60 })]
        try await book.expectRecounted()
        let day = try #require(try book.counted().reconciliation.unexplainedDays(of: 0, []).first)
        #expect(day.counted == 8 && day.times.count == 5 && day.hours.map(\.uses) == [2, 1, 2])
        let first =
            "<td>2, from 2026-01-11 12:10:00 to 2026-01-11 12:11:00; nearest records of the key (of any, for a seal): none before, "
            + "<span class=\"place\">node-1 1</span> of 2026-01-11 12:30:00<br>1, from"
        let last =
            "<br>2, from 2026-01-11 18:00:00 to 2026-01-11 18:00:00; nearest records of the key (of any, for a seal): <span class=\"place\">node-1 4</span> of "
            + "2026-01-11 18:00:00, none after</td>"
        let page = try book.page()
        #expect(page.contains(first) && page.contains(last))
    }

    @Test("finds uses that were hidden on days with as many requests that failed")
    func hidden() async throws {
        var book = RecordBook()
        // 37 requests that the HSM may have executed, an hour apart, without a use; and as many uses on one night.
        for number in 0..<37 {
            try book.add(
                Self.decrypt, .refused(.hsmUnavailable), at: 10 + Double(number), by: "checkout", key: RecordBook.key)
        }
        book.tokenUses = [Self.log((0..<37).map { 3.55 + Double($0) / 3600 })]
        let found = try await FindingsTests.findings(book, .unrecordedUses)
        #expect(found.map(\.count) == [37] && found[0].since == RecordBook.time(3.55))
        #expect(try book.counted().reconciliation.unexplained == 37)
    }

    @Test("takes among many recorded uses the one furthest from the records, with clocks that differ and without")
    func stray() async throws {
        let second = 1.0 / 3600
        var book = RecordBook()
        for number in 0..<200 {
            try book.add(
                Self.decrypt, at: 9 + Double(number) * 10 * second, by: "checkout", key: RecordBook.key,
                hsmToken: "primary")
        }
        let own = (0..<200).map { 9 + Double($0) * 10 * second }
        book.tokenUses = [Self.log(own + [9 + 204 * second])]
        try await book.expectRecounted()
        #expect(try Self.unexplained(book) == [[204, 204].map { RecordBook.time(9 + $0 * second) }])
        // The HSM token's clock is nine seconds ahead, so the last use of each ten seconds is nearer to another record.
        book.tokenUses = [Self.log(own.map { $0 + 9 * second })]
        #expect(try book.counted().reconciliation.unexplained == 0)
        try await book.expectRecounted()
    }

    @Test("compares uses in no record with each loss, by time and not by day")
    func losses() async throws {
        var book = RecordBook()
        try book.add(FindingsTests.start, at: 0)
        try book.add(Self.decrypt, at: 5, by: "checkout", key: RecordBook.key, hsmToken: "primary")
        try book.add(FindingsTests.start, at: 8)
        try book.add(FindingsTests.restore(3, 4), at: 9, by: "bob")
        // Two uses while two records were lost, of which it explains them both, and one later on the same day.
        book.tokenUses = [Self.log([5, 6, 7, 20])]
        let found = try await FindingsTests.findings(book, .unrecordedUses)
        #expect(found.map(\.since) == [RecordBook.time(20)] && found.map(\.count) == [1])
        #expect(
            try book.page().contains(
                "At most 2 can be explained by the records 3 to 4 of node node-1, which are lost."))
    }

    @Test("counts an import into several HSM tokens as one use in each of them and in no other HSM token")
    func severalTokens() throws {
        let record = Self.record(.keyImport(certificate: nil, approval: nil), token: "primary,backup")
        for (token, most) in [("primary", 2), ("backup", 2), ("primary,backup", 0), ("back", 0), ("third", 0)] {
            let found = try Self.reconciled([record], Self.log(uses: 2, #""token":"\#(token)","#))
            #expect(found.recorded[0][Self.key]?.most ?? 0 == most)
            #expect(found.unexplained == 2 - most)
        }
    }

    @Test("ignores records of other nodes, HSM tokens and times")
    func coverage() throws {
        let use = Self.record(Self.decrypt, .ok, token: "primary")
        func least(_ record: AuditRecord, _ members: String) throws -> Int {
            try Self.reconciled([record], Self.log(uses: 0, members)).recorded[0][Self.key]?.least ?? 0
        }
        #expect(try least(use, "") == 1)
        #expect(try least(use, #""node":"a","token":"primary","#) == 1)
        #expect(try least(use, #""node":"b","#) == 0)
        #expect(try least(use, #""token":"backup","#) == 0)
        for time in ["2025-12-31T23:59:59.999Z", "2026-02-01T00:00:00Z"] {
            let other = Self.record(Self.decrypt, .ok, token: "primary", at: try #require(AuditTime(rfc3339: time)))
            #expect(try least(other, "") == 0)
        }
    }
}
