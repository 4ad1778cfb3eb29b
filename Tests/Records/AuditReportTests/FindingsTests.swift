import AuditChain
import Foundation
import Refusals
import TestSupport
import Testing

@testable import AuditReport

/// The findings of a report. `scripts/recount-report`, an independent implementation, finds the same in each test.
@Suite("The findings of a report")
struct FindingsTests {
    static let decrypt = AuditEvent.decrypt(reference: nil)
    static let start = AuditEvent.start(version: AuditText("1.0.0"))

    static func restore(_ ledger: Int, _ hsmToken: Int?) -> AuditEvent {
        .ledgerAcceptRestore(LedgerRestore(ledgerSequence: ledger, hsmTokenSequence: hsmToken, reason: nil))
    }

    /// Returns the findings, and requires that the script finds the same.
    static func findings(_ book: RecordBook, _ kinds: Finding.Kind...) async throws -> [Finding] {
        try await book.expectRecounted()
        let found = try book.counted().collectFindings(madeAt: RecordBook.time(24 * 31)).findings
        return found.filter { kinds.isEmpty || kinds.contains($0.kind) }
    }

    @Test("finds a flood of refusals that is recorded only as sums, by caller and day, but none below the threshold")
    func manyRefusals() async throws {
        var book = RecordBook()
        func add(_ count: Int, at hours: Double, uid: UInt32 = 4000) throws {
            let counts = try #require(RefusalSummary(since: RecordBook.time(hours - 0.1), counts: [.forbidden: count]))
            try book.add(.refusals(counts), .refused(.forbidden), at: hours, by: "x", uid: uid, isKnown: false)
        }
        for (count, hours) in [(60, 3.1), (40, 3.9), (99, 5), (500, 7.5), (100, 30)] { try add(count, at: hours) }
        for hours in [3.95, 4.0] { try add(99, at: hours, uid: 4001) }
        let found = try await Self.findings(book, .manyRefusals)
        #expect(found.map(\.caller) == ["uid 4000", "uid 4000"] && found.map(\.count) == [600, 100])
        #expect(found.map(\.records.count) == [3, 1])
        // From the beginning of the first sum to the last record; the hour from 5:00 between them does not count.
        #expect(found[0].since == RecordBook.time(3) && found[0].until == RecordBook.time(7.5))
        #expect(found[0].time == RecordBook.time(3) && found.map(\.node?.name) == ["node-1", "node-1"])
        let page = try book.page()
        let sentence = "600 requests of this caller were refused, counting only hours with at least 100 refusals, from "
        #expect(page.contains(sentence + "2026-01-01 03:00:00 to 2026-01-01 07:30:00 (4 h 30 min)."))
        // The requests of an hour on two nodes are on none of them.
        try book.add(.request, .refused(.forbidden), on: "node-2", at: 30.5, by: "x", uid: 4000, isKnown: false)
        #expect(try await Self.findings(book, .manyRefusals).map(\.node?.name) == ["node-1", nil])
    }

    @Test("finds a known caller with many refusals for reasons that no other known caller has")
    func ownRefusals() async throws {
        var book = RecordBook()
        try book.add(.request, .refused(.forbidden), at: 0, by: "x", uid: 4000, isKnown: false)
        for number in 0..<99 { try book.add(.request, .refused(.forbidden), at: Double(number), by: "gateway") }
        // Without another known caller that was refused, nothing is compared.
        var alone = book
        try alone.add(.request, .refused(.forbidden), at: 200, by: "gateway")
        #expect(try await Self.findings(alone, .ownRefusals).isEmpty)
        for caller in ["checkout", "gateway"] { try book.add(.request, .refused(.overloaded), at: 200, by: caller) }
        #expect(try await Self.findings(book, .ownRefusals).isEmpty)
        try book.add(.request, .refused(.forbidden), at: 201, by: "gateway")
        let found = try await Self.findings(book, .ownRefusals)
        #expect(found.map(\.caller) == ["gateway"] && found[0].codes == ["forbidden": 100])
        #expect(found[0].time == RecordBook.time(0) && found[0].count == 100)
        try book.add(.request, .refused(.forbidden), at: 202, by: "checkout")
        #expect(try await Self.findings(book, .ownRefusals).isEmpty)
    }

    @Test("shows planned stops with the time to the next start, and no finding")
    func plannedStops() async throws {
        var book = RecordBook()
        for (event, hours) in [(Self.start, 1.0), (.stop, 2), (Self.start, 2.5), (.stop, 4)] {
            try book.add(event, at: hours)
        }
        #expect(try await Self.findings(book).isEmpty)
        let downtimes = try book.counted().system.nodes.values.flatMap(\.allDowntimes)
        #expect(downtimes.map(\.since) == [RecordBook.time(2), RecordBook.time(4)])
        #expect(downtimes.map(\.until) == [RecordBook.time(2.5), nil])
        #expect(try book.page().contains("<td>30 min</td><td><span class=\"place\">node-1 2</span>"))
    }

    @Test("lists downtimes of all kinds in order of time")
    func downtimesInOrder() async throws {
        var book = RecordBook()
        try book.add(Self.start, at: 0)
        for hours in [1.0, 1.1, 1.2] {
            try book.add(.decrypt(reference: nil), .refused(.hsmUnavailable), at: hours, by: "checkout")
        }
        for (event, hours) in [(AuditEvent.stop, 3.0), (Self.start, 4), (Self.start, 6)] {
            try book.add(event, at: hours)
        }
        try await book.expectRecounted()
        let downtimes = try #require(try book.report(to: 24).objectValue?["downtimes"]?.arrayValue)
        let kinds = downtimes.map { $0.objectValue?["kind"]?.stringValue }
        #expect(kinds == ["hsm_unavailable", "stop", "ended_without_stop"])
    }

    @Test("states the cut-off of a key that opened payment tokens after its deactivation, or that none is recorded")
    func cutOff() async throws {
        for cutOff in [RecordBook.time(26), nil] {
            var book = RecordBook()
            try book.add(
                .keyStateChange(KeyStateChange(from: .active, to: .deactivated, cutOff: cutOff)), at: 2, by: "alice",
                key: RecordBook.key)
            try book.add(Self.decrypt, at: 3, by: "checkout", key: RecordBook.key)
            #expect(try await Self.findings(book, .usedAfterSuperseded).map(\.cutOff) == [cutOff])
            let page = try book.page()
            let opened = "1 payment token was opened, or opened again, with the key after its deactivation, at "
            #expect(page.contains(opened + "2026-01-01 "))
            #expect(page.contains("Its cut-off is 2026-01-02 02:00:00") == (cutOff != nil))
            #expect(page.contains("deactivated, opens until 2026-01-02 02:00:00") == (cutOff != nil))
            #expect(page.contains("No cut-off is recorded.") == (cutOff == nil))
            // Until its cut-off the key opens what wallets had encrypted to it.
            let block = try #require(try book.counted().blocks[RecordBook.key]?.first)
            #expect(block.since == cutOff ?? RecordBook.time(2))
            #expect(block.lastUse == (cutOff == nil ? nil : RecordBook.time(3)))
            #expect(page.contains("It was deactivated at 2026-01-01 02:00:00, or, if that record is archived, before."))
            #expect(page.contains("By caller: checkout (1)."))
        }
    }

    @Test("states the times of the first and last late opening on all nodes, and not that of the deactivation")
    func lateOpenings() async throws {
        var book = RecordBook()
        try book.add(
            .keyStateChange(KeyStateChange(from: .active, to: .deactivated)), at: 2, by: "alice", key: RecordBook.key)
        for (node, caller, hours) in [("node-1", "app", 6.0), ("node-2", "checkout", 5), ("node-2", "app", 24)] {
            try book.add(Self.decrypt, on: node, at: hours, by: caller, key: RecordBook.key)
        }
        let found = try #require(try await Self.findings(book, .usedAfterSuperseded).first)
        #expect(found.count == 3 && found.time == RecordBook.time(5))
        #expect(found.since == RecordBook.time(5) && found.until == RecordBook.time(24))
        #expect(
            try book.page().contains(
                "after its deactivation, from 2026-01-01 05:00:00 to 2026-01-02 00:00:00 (19 h)."))
    }

    @Test("counts what was opened, and opened again, since another key of the merchant served")
    func succession() async throws {
        var book = RecordBook()
        for (key, hours) in [(RecordBook.key, 1.0), (RecordBook.other, 4)] {
            try book.add(.keyImport(certificate: nil, approval: nil), at: hours, by: "alice", key: key)
        }
        for (outcome, hours) in [(AuditOutcome.ok, 3.0), (.ok, 5), (.repeated, 6), (.refused(.keyNotActive), 7)] {
            try book.add(Self.decrypt, outcome, at: hours, by: "checkout", key: RecordBook.key)
        }
        try await book.expectRecounted()
        let keys = (try book.report(to: 744).objectValue?["keys"]?.arrayValue ?? []).compactMap(\.objectValue)
        let key = keys.first { $0["key"]?.stringValue == RecordBook.key.base64 }
        let successor = key?["successor"]?.objectValue
        #expect(successor?["since"]?.stringValue == RecordBook.time(4).text)
        let requests = successor?["opened"]?.objectValue?["requests"]?.objectValue
        #expect(requests?["count"]?.numberValue?.int == 2)
    }

    @Test("finds an audit key for which its lost predecessor does not vouch, and no other change of the key")
    func auditKeyLost() async throws {
        var book = RecordBook()
        for isLost in [false, true] {
            try book.add(
                .auditKeyChange(
                    from: AuditDigest.of([1]), to: AuditDigest.of([2]), reason: AuditReason("burnt"), approval: nil,
                    isFormerKeyLost: isLost), at: isLost ? 2 : 1, by: "bob", hsmToken: "second")
        }
        let found = try await Self.findings(book)
        #expect(found.map(\.kind) == [.auditKeyLost] && found[0].time == RecordBook.time(2))
        #expect(found[0].caller == "bob" && found[0].hsmToken == "second")
        #expect(found[0].records.beginning.map(\.text) == ["node-1 2"])
    }

    @Test("finds a person who tries to approve their own request, and nobody else")
    func ownRequest() async throws {
        var book = RecordBook()
        let identifier = try #require(ApprovalIdentifier(hex: "00000001"))
        func decision(_ decision: ApprovalDecision) -> AuditEvent {
            .approvalDecision(approval: identifier, decision: decision, reason: nil)
        }
        // The request may be recorded on a node that follows in the export.
        try book.add(decision(.approve), .refused(.approvalInvalid), at: 3, by: "alice", key: RecordBook.key)
        try book.add(decision(.approve), .refused(.approvalInvalid), at: 4, by: "bob", key: RecordBook.key)
        try book.add(
            .approvalRequest(
                ApprovalRequest(
                    approval: identifier, operation: .keyDestroy, parameters: .zero, reason: nil,
                    expires: RecordBook.time(100))), on: "node-2", at: 2, by: "alice", key: RecordBook.key)
        try book.add(decision(.withdraw), on: "node-2", at: 5, by: "alice", key: RecordBook.key)
        let found = try await Self.findings(book)
        #expect(found.map(\.kind) == [.ownRequest] && found[0].caller == "alice")
        #expect(found[0].key == RecordBook.key && found[0].what == "key_destroy")
        #expect(found[0].records.beginning.map(\.text) == ["node-1 1"])
    }

    @Test(
        "finds ten replays of one caller on one day and who had opened the payments, but not nine, and not ten on two days"
    )
    func replays() async throws {
        var book = RecordBook()
        for (caller, hours) in [
            ("ten", (0..<10).map { Double($0) }), ("nine", (0..<9).map { Double($0) }),
            ("two-days", (0..<10).map { Double($0) + 19 }),
        ] {
            for hour in hours {
                try book.add(
                    Self.decrypt, .refused(.transactionReplayed), at: hour, by: caller,
                    key: hour < 4 ? RecordBook.other : RecordBook.key, transaction: .of([UInt8(hour / 3)]))
            }
        }
        // Of the four payments of `ten`, one was opened before the period, one twice, and one by the same caller.
        try book.add(Self.decrypt, on: "node-2", at: -5, by: "shop", key: RecordBook.key, transaction: .of([0]))
        for hours in [7.0, 6] {
            try book.add(Self.decrypt, on: "node-2", at: hours, by: "shop", key: RecordBook.key, transaction: .of([1]))
        }
        try book.add(Self.decrypt, on: "node-3", at: 2, by: "ten", key: RecordBook.key, transaction: .of([2]))
        let found = try await Self.findings(book, .replays)
        #expect(found[0].openers.mapValues(\.count) == ["shop": 2, "ten": 1] && found[0].unopened == 1)
        #expect(found[0].openers["shop"]?.requests.records.beginning.map(\.text) == ["node-2 1", "node-2 3"])
        #expect(found[0].openers["shop"]?.requests.first == RecordBook.time(-5))
        let key = RecordBook.key.base64.prefix(8)
        #expect(
            try book.page().contains(
                "Who had opened these payments first: shop <a href=\"#f1\">2</a>, from 2025-12-31 19:00:00 to 2026-01-01 "
                    + "06:00:00 (by key: \(key)… 2); ten 1 <span class=\"place\">(node-3 1)</span>, at 2026-01-01 02:00:00 "
                    + "(by key: \(key)… 1)."))
        #expect(found.map(\.kind) == [.replays] && found[0].caller == "ten" && found[0].count == 10)
        #expect(found[0].payments == 4)
        #expect(
            try book.page().contains(
                " By key: \(RecordBook.key.base64.prefix(8))… (6), \(RecordBook.other.base64.prefix(8))… (4)."))
        #expect(found[0].since == RecordBook.time(0) && found[0].until == RecordBook.time(9))
    }

    @Test("counts refusals by caller with the worst hour, and sums those of accounts that no access rule knows")
    func refusedCallers() async throws {
        var book = RecordBook()
        try book.add(.request, .refused(.malformedRequest), at: 1, by: "checkout")
        try book.add(Self.decrypt, .refused(.overloaded), at: 2, by: "checkout", key: RecordBook.key)
        try book.add(Self.decrypt, .refused(.overloaded), at: 2.5, by: "checkout", key: RecordBook.key)
        let counts = try #require(
            RefusalSummary(since: RecordBook.time(3), counts: [.forbidden: 26, .requestTimeout: 4]))
        try book.add(.refusals(counts), .refused(.forbidden), at: 3, by: "anyone", uid: 4000, isKnown: false)
        try book.add(.refusals(counts), .refused(.forbidden), at: 9, by: "anyone", uid: 4001, isKnown: false)
        let found = try await Self.findings(book)
        #expect(found.map(\.kind) == [.unknownCallers] && found[0].count == 60 && found[0].records.count == 2)
        #expect(found[0].callers == ["uid 4000": 30, "uid 4001": 30])
        // Sums and requests without a named operation are in the reasons too.
        let reasons = try book.counted().refusals.reasons
        #expect(reasons["malformed_request"]?.callers == ["checkout": 1])
        #expect(reasons["forbidden"]?.callers == ["uid 4000": 26, "uid 4001": 26])
        #expect(reasons["request_timeout"]?.summary == 8 && reasons["overloaded"]?.records.count == 2)
        let callers = try book.counted().refusals.sortedCallers
        #expect(callers.map(\.name) == ["uid 4000", "uid 4001", "checkout"])
        #expect(callers[2].caller.requests.count == 3 && callers[2].caller.worstHour == (RecordBook.time(2), 2))
        #expect(
            callers[2].caller.requests.first == RecordBook.time(1)
                && callers[2].caller.requests.last == RecordBook.time(2.5))
    }

    @Test("finds a compromise with the last use before the suspension and the requests refused afterwards")
    func compromise() async throws {
        var book = RecordBook()
        func change(_ from: AuditKeyState, _ to: AuditKeyState, at hours: Double) throws {
            try book.add(
                .keyStateChange(KeyStateChange(from: from, to: to)), at: hours, by: "alice", key: RecordBook.key)
        }
        try change(.active, .suspended, at: 1)
        try change(.suspended, .active, at: 2)
        try book.add(Self.decrypt, at: 3, by: "checkout", key: RecordBook.key)
        try change(.active, .suspended, at: 4)
        try change(.suspended, .compromised, at: 5)
        try book.add(Self.decrypt, .refused(.keyNotActive), at: 4.5, by: "checkout", key: RecordBook.key)
        try book.add(Self.decrypt, .refused(.keyNotActive), on: "node-2", at: 6, by: "app", key: RecordBook.key)
        let found = try await Self.findings(book)
        #expect(found.map(\.kind) == [.clockSetBack, .keyCompromised, .keyNotDestroyed])
        #expect(found[1].since == RecordBook.time(3) && found[1].until == RecordBook.time(4) && found[1].count == 2)
        #expect(found[1].caller == "alice" && found[2].key == RecordBook.key)
        #expect(found[1].callers == ["checkout": 1, "app": 1])
        // Each step that blocked the key has the requests up to the next step.
        let blocks = try #require(try book.counted().blocks[RecordBook.key])
        #expect(blocks.map(\.state) == ["suspended", "suspended", "compromised"])
        #expect(blocks.map(\.refused.count) == [0, 1, 1])
        #expect(blocks.map(\.lastUse) == [nil, RecordBook.time(3), RecordBook.time(3)])
        #expect(try book.page().contains("the last use before 2026-01-01 01:00:00: none in the period; refused from "))
        #expect(try book.page().contains("refused afterwards, of app (1), checkout (1)."))
        try change(.compromised, .destroyed, at: 7)
        #expect(try await Self.findings(book, .keyNotDestroyed).isEmpty)
    }

    @Test("finds a refused certificate, unless one was imported for the key afterwards")
    func refusedCertificate() async throws {
        var book = RecordBook()
        let certificate = AuditEvent.certificateImport(certificate: .zero)
        try book.add(certificate, at: 1, by: "carol", key: RecordBook.key)
        try book.add(certificate, .refused(.certificateUnsuitable), at: 2, by: "carol", key: RecordBook.key)
        let found = try await Self.findings(book)
        #expect(found.map(\.kind) == [.certificateRefused] && found[0].caller == "carol")
        #expect(try book.page().contains("A certificate (SHA-256 <code>\(AuditDigest.zero.hex)</code>) was refused"))
        try book.add(.ledgerBackup(bytes: 4096, file: .zero), at: 2.5, by: "carol")
        #expect(
            try book.page().contains("ledger_backup, 4,096 bytes, SHA-256 <code>\(AuditDigest.zero.hex)</code></td>"))
        try book.add(certificate, on: "node-2", at: 3, by: "carol", key: RecordBook.key)
        #expect(try await Self.findings(book).isEmpty)
    }

    @Test("finds an HSM token whose module is SoftHSM in the configuration that was last in force")
    func softwareToken() async throws {
        var book = RecordBook()
        for (hour, module) in [(1.0, "/usr/lib/libCryptoki2.so"), (2, "/usr/lib/softhsm/libsofthsm2.so")] {
            var values = ConfigurationValues()
            values.set("tokens.primary.module", ConfigurationValue(module))
            for event in values.events() { try book.add(event, at: hour) }
            let found = try await Self.findings(book)
            #expect(found.map(\.kind) == (hour == 2 ? [.softwareToken] : []))
            #expect(found.first?.hsmToken ?? "primary" == "primary")
        }
        // A later load without a change does not make the finding later.
        var values = ConfigurationValues()
        values.set("tokens.primary.module", ConfigurationValue("/usr/lib/softhsm/libsofthsm2.so"))
        values.set("log.level", ConfigurationValue("info"))
        for event in values.events() { try book.add(event, at: 3) }
        #expect(try await Self.findings(book).map(\.time) == [RecordBook.time(2)])
    }

    @Test("shows an hour with far more uses than the caller's usual maximum, but not a new caller's first hour")
    func busyHour() async throws {
        var book = RecordBook()
        for day in 0..<40 {
            for _ in 0..<10 {
                try book.add(.decrypt(reference: nil), at: Double(day * 24), by: "checkout", key: RecordBook.key)
            }
        }
        for count in [31, 30] {
            for _ in 0..<count {
                try book.add(
                    .decrypt(reference: nil), at: Double((count == 31 ? 41 : 80) * 24), by: "checkout",
                    key: RecordBook.key)
            }
        }
        for _ in 0..<100 {
            try book.add(.decrypt(reference: nil), at: 41 * 24, by: "batch", key: RecordBook.other)
        }
        let found = CallerAnomaly.busyHours(try book.counted(to: 24 * 90).uses)
        // Thirty uses are not more than three times ten, so they are not unusual. After four idle weeks, no earlier
        // uses remain for comparison.
        #expect(found.map(\.kind) == [.busyHour] && found[0].time == RecordBook.time(41 * 24))
        #expect((found[0].caller, found[0].count, found[0].usual) == ("checkout", 31, 10))
        try await book.expectRecounted(to: 24 * 90)
    }

    @Test("shows even a few uses at a time of day at which the caller was not active for four weeks")
    func strangeHour() async throws {
        var book = RecordBook()
        for day in 0..<60 {
            for _ in 0..<30 {
                try book.add(.decrypt(reference: nil), at: Double(day * 24) + 3, by: "batch", key: RecordBook.key)
            }
            let atNoon = [20: 25, 40: 19, 45: 20, 46: 20][day] ?? 0
            for _ in 0..<atNoon {
                try book.add(.decrypt(reference: nil), at: Double(day * 24) + 14, by: "batch", key: RecordBook.key)
            }
        }
        let uses = try book.counted(to: 24 * 90).uses
        // On day 20 there are fewer than four weeks for comparison. Days 40, 45 and 46 follow earlier uses at this
        // hour.
        #expect(CallerAnomaly.unusualHours(uses).isEmpty)
        #expect(CallerAnomaly.busyHours(uses).isEmpty)
        var later = book
        for _ in 0..<20 {
            try later.add(.decrypt(reference: nil), at: 24 * 80 + 14, by: "batch", key: RecordBook.key)
        }
        let found = CallerAnomaly.unusualHours(try later.counted(to: 24 * 90).uses)
        #expect(found.map(\.time) == [RecordBook.time(24 * 80 + 14)] && found[0].count == 20)
        #expect(found[0].records.count == 20 && found[0].since == found[0].time && found[0].until == found[0].time)
        // The same hour, if it is a busy one too, is one finding.
        for _ in 0..<80 {
            try later.add(.decrypt(reference: nil), at: 24 * 80 + 14.5, by: "batch", key: RecordBook.key)
        }
        let busy = CallerAnomaly.hours(try later.counted(to: 24 * 90).uses)
        #expect(busy.map(\.kind) == [.busyHour] && busy[0].isUnusual && busy[0].count == 100)
        try await later.expectRecounted(to: 24 * 90)
    }

    @Test("finds a caller's first use of a key once both have been in use for four weeks")
    func firstUse() async throws {
        var book = RecordBook()
        try book.add(.keyGenerate(), at: 0, by: "alice", key: RecordBook.other)
        try book.add(.certificateImport(certificate: .zero), at: 0, by: "alice", key: RecordBook.other)
        try book.add(Self.decrypt, at: 0, by: "checkout", key: RecordBook.key)
        try book.add(Self.decrypt, at: 27 * 24, by: "checkout", key: .of(Array("early".utf8)))
        try book.add(Self.decrypt, at: 28 * 24, by: "checkout", key: RecordBook.other)
        // A key that came into use less than four weeks before is a rotation.
        let rotated = AuditDigest.of(Array("rotated".utf8))
        try book.add(.keyGenerate(), at: 29 * 24, by: "alice", key: rotated)
        try book.add(.certificateImport(certificate: .zero), at: 29 * 24, by: "alice", key: rotated)
        try book.add(Self.decrypt, at: 30 * 24, by: "checkout", key: rotated)
        let found = try await Self.findings(book)
        #expect(found.map(\.kind) == [.firstUse] && found[0].time == RecordBook.time(28 * 24))
        #expect(found[0].caller == "checkout" && found[0].key == RecordBook.other)
    }
}
