import AuditChain
import Refusals
import Testing

@testable import AuditReport

// The findings about the record itself: losses, heads, seals, ends without a stop, and clocks.
extension FindingsTests {
    @Test("counts the records between a restored copy's end and the record that the HSM token remembered")
    func restoredCopy() async throws {
        var book = RecordBook()
        try book.add(Self.start, at: 1)
        try book.add(Self.decrypt, at: 2, by: "checkout", key: RecordBook.key)
        // The copy ends here. The daemon starts with it twice before an administrator accepts it.
        try book.add(Self.start, at: 100)
        try book.add(Self.start, at: 101)
        try book.add(.verify, at: 102, by: "checkout")
        try book.add(Self.restore(5, 41), at: 103, by: "bob")
        let found = try await Self.findings(book)
        #expect(found.map(\.kind) == [.endedWithoutStop, .recordsLost])
        let loss = try #require(found.last)
        #expect((loss.first, loss.last, loss.count) == (3, 41, 39))
        #expect(loss.since == RecordBook.time(2) && loss.until == RecordBook.time(100) && loss.caller == "bob")
        #expect(loss.records.beginning.map(\.text) == ["node-1 6"])
        // Only the start after the restore is explained by it.
        #expect(found.first?.until == RecordBook.time(101))
        #expect(try book.page().contains("<strong>Not proved.</strong>"))
    }

    @Test("counts a loss under a running daemon from the ledger's end when it was accepted")
    func restoredUnderneath() async throws {
        var book = RecordBook()
        try book.add(Self.start, at: 1)
        try book.add(Self.decrypt, at: 2, by: "checkout", key: RecordBook.key)
        try book.add(Self.restore(2, 9), at: 3, by: "bob")
        let loss = try #require(try await Self.findings(book, .recordsLost).first)
        #expect((loss.first, loss.last, loss.count, loss.since) == (3, 9, 7, nil))
    }

    @Test("counts no loss if the HSM token remembered none of the records, or only those that the copy has")
    func nothingLost() async throws {
        for (isSealed, remembered) in [(true, nil), (true, 1), (true, 2), (false, 2), (false, 3)] as [(Bool, Int?)] {
            var book = RecordBook()
            try book.add(Self.start, at: 1)
            // A release or an audit checkpoint shows that the node served after its start.
            if isSealed {
                try book.seal(at: 1)
            } else {
                try book.add(Self.decrypt, at: 1, by: "shop", key: RecordBook.key)
            }
            try book.add(.stop, at: 2)
            try book.add(Self.start, at: 3)
            try book.add(Self.restore(3, remembered), at: 4, by: "bob")
            let found = try await Self.findings(book).map(\.kind)
            #expect(found == (isSealed ? [.sealsApart] : []), "\(isSealed) \(remembered ?? 0)")
        }
    }

    @Test("finds the longest of the times over a day between two audit checkpoints of a node, and their number")
    func sealsApart() async throws {
        var book = RecordBook()
        for (place, hour) in [0.0, 24, 49, 80, 110].enumerated() {
            try book.add(.verify, at: hour, by: "checkout")
            try book.seal(at: hour)
            if place == 2 { try book.add(.verify, on: "node-2", at: hour, by: "checkout") }
        }
        let found = try await Self.findings(book)
        #expect(found.map(\.count) == [3, nil] && found[0].node?.name == "node-1")
        #expect(found[0].since == RecordBook.time(49) && found[0].until == RecordBook.time(80))
        #expect((found[0].first, found[0].last) == (4, 4))
        // The seal at the end of the period counts, although it is not in the period.
        try book.add(.verify, at: 24 * 31 - 26, by: "checkout")
        try book.seal(at: 24 * 31 - 26)
        try book.seal(at: 24 * 31)
        let later = try #require(try await Self.findings(book).first)
        #expect(later.count == 5 && later.last == 6)
    }

    @Test("names the requests for heads before and after a loss, and those that other nodes answered in between")
    func headsOfLoss() async throws {
        var book = RecordBook()
        func head(_ ofNode: String? = nil, on node: String = "node-1", at hours: Double) throws {
            try book.add(.auditHead(ofNode: ofNode.map { AuditText($0) }), on: node, at: hours, by: "dora")
        }
        try book.add(Self.start, at: 0)
        try book.add(Self.decrypt, at: 0.5, by: "checkout", key: RecordBook.key)
        try head(at: 1)
        try head("node-2", at: 1.5)
        try book.add(Self.start, at: 100)
        try head(at: 100.5)
        try book.add(Self.restore(6, 41), at: 103, by: "bob")
        try head(at: 104)
        try head(at: 105)
        // Only requests for heads of node-1 between the copy and the start with it show the loss.
        for (ofNode, hours) in [("node-1", 1.0), ("node-1", 50), ("all", 60), ("node-2", 70), ("node-1", 101)] {
            try head(ofNode, on: "node-3", at: hours)
        }
        for hours in 61..<73 { try head("all", on: "node-4", at: Double(hours)) }
        let loss = try #require(try await Self.findings(book, .recordsLost).first)
        #expect(loss.heads.before?.place.text == "node-1 3" && loss.heads.after?.place.text == "node-1 8")
        let page = try book.page()
        #expect(page.contains("The first after: node-1 8, 2026-01-05 08:00:00, by dora."))
        #expect(page.contains("node-3 3</span>, <span class=\"t\">2026-01-03 12:00:00</span>, by dora; later "))
        #expect(page.contains("which it does not show: 2</td>") && page.contains("which it does not show: 0</td>"))
        #expect(page.contains(": 2026-01-03 02:00:00 by dora (node-3 2); 2026-01-03 12:00:00 by dora (node-3 3); "))
        #expect(page.contains("2026-01-03 23:00:00 by dora (node-4 11); 2026-01-04 00:00:00 by dora (node-4 12)."))
        // A person who asks other nodes for their own heads may have asked node-1 too.
        #expect(page.contains("asked other nodes for heads of these: 2026-01-03 22:00:00 by dora (node-3 4). Whether "))
    }

    @Test("finds records that could not be written, with the time since which, the node and the record before them")
    func dropped() async throws {
        var book = RecordBook()
        try book.add(.verify, on: "node-2", at: 4, by: "checkout")
        try book.seal(on: "node-2", at: 5.5)
        try book.add(
            .recordsDropped(count: 137, since: RecordBook.time(5)), .refused(.ledgerUnavailable), on: "node-2", at: 6)
        let found = try #require(try await Self.findings(book, .recordsDropped).first)
        #expect(found.previous?.place.text == "node-2 1" && found.previous?.time == RecordBook.time(4))
        #expect(try book.page().contains("Record node-2 1 of 2026-01-01 04:00:00 and the next one, node-2 2, "))
        #expect(found.kind == .recordsDropped && found.count == 137 && found.node?.name == "node-2")
        #expect(found.since == RecordBook.time(5) && found.until == RecordBook.time(6))
        #expect(found.lastSeal == RecordBook.time(5.5))
        #expect(try book.page().contains("on and off, but not at the seal of 2026-01-01 05:30:00: 137 requests"))
        #expect(
            try book.page().contains(
                "137 requests refused whose records are missing. Payments whose records were written in this time were "
                    + "answered\n</td><td><span class=\"t\">2026-01-01 05:00:00</span></td><td><span class=\"t\">2026-01-01 "
                    + "06:00:00</span></td><td>at least 0 s, at most 1 h</td>"))
    }

    @Test("finds a start without a stop, with the time without records, and a clock that was set back")
    func hosts() async throws {
        var book = RecordBook()
        try book.add(Self.start, at: 1)
        try book.add(.stop, at: 2)
        try book.add(Self.start, at: 3)
        try book.add(Self.start, at: 4)
        try book.add(.verify, at: 3.9)
        // A second is no step.
        try book.add(.verify, at: 3.9 - 1 / 3600)
        try book.add(Self.start, on: "node-2", at: 4)
        let found = try await Self.findings(book)
        #expect(found.map(\.kind) == [.clockSetBack, .endedWithoutStop])
        #expect(found[0].since == RecordBook.time(4) && found[0].until == RecordBook.time(3.9))
        #expect(found[1].since == RecordBook.time(3) && found[1].records.beginning.map(\.text) == ["node-1 4"])
        // The records 2 to 4 were not ahead: record 3 is before the time to which the clock was set back.
        #expect((found[0].first, found[0].last, found[0].count) == (4, 4, 1) && found[0].before == RecordBook.time(3))
    }

    @Test("finds since which record a clock was ahead that was set back, once and again")
    func setForward() async throws {
        var book = RecordBook()
        for hour in [1.0, 2, 5.1, 5.2, 3, 3.5, 9, 4, 4.5] { try book.add(.verify, at: hour, by: "checkout") }
        // A clock that was ahead from the first record on.
        for hour in [8.0, 7] { try book.add(.verify, on: "node-2", at: hour, by: "checkout") }
        let found = try await Self.findings(book)
        #expect(found.map(\.kind) == [.clockSetBack, .clockSetBack, .clockSetBack])
        #expect((found[0].first, found[0].last) == (3, 4) && found[0].before == RecordBook.time(2))
        #expect(found[0].ahead == RecordBook.time(5.1) && found[1].ahead == RecordBook.time(9))
        #expect(found.map(\.nextUse) == [nil, nil, nil])
        #expect((found[1].first, found[1].last) == (7, 7) && found[1].before == RecordBook.time(3.5))
        #expect((found[2].first, found[2].last) == (1, 1) && found[2].before == nil)
        #expect(
            try book.page().contains(
                "records 3 to 4 have later times than the next record. The first of them has 2026-01-01 05:06:00, "
                    + "and the last record or seal before it 2026-01-01 02:00:00."))
    }

    @Test("counts the requests that a wrong clock's node refused, up to its next use")
    func effectOfClock() async throws {
        var book = RecordBook()
        let refused = AuditOutcome.refused(.signingTimeOutsideWindow)
        try book.add(Self.decrypt, refused, at: 0.5, by: "checkout", key: RecordBook.key)
        try book.add(Self.decrypt, at: 1, by: "checkout", key: RecordBook.key)
        for hours in [5.0, 6, 3] { try book.add(Self.decrypt, refused, at: hours, by: "checkout", key: RecordBook.key) }
        try book.add(Self.decrypt, .refused(.overloaded), at: 3.5, by: "checkout", key: RecordBook.key)
        for hours in [4.0, 5] { try book.add(Self.decrypt, at: hours, by: "checkout", key: RecordBook.key) }
        let found = try #require(try await Self.findings(book, .clockSetBack).first)
        #expect(found.refused == 3 && found.nextUse == RecordBook.time(4))
        let page = try book.page()
        #expect(page.contains("set back by at least 3 h: a record of 2026-01-01 03:00:00 follows one of "))
        #expect(page.contains("set forward between both, then by at most 4 h."))
        // The clock was wrong at some time after the last use before it, and the next use was served.
        #expect(
            page.contains(
                "3 requests refused with signing_time_outside_window, none served. At least from the first to the last of them, without the "
                    + "time at which it was set back\n</td><td><span class=\"t\">2026-01-01 "
                    + "01:00:00</span></td><td><span class=\"t\">2026-01-01 04:00:00</span></td><td>at least 1 h, at most 3 h</td>"
            ))
        // The record at which the clock was set back is one of the refused ones, and is listed once.
        #expect(found.records.beginning.map(\.text) == ["node-1 3", "node-1 4", "node-1 5"])
    }

    @Test("says not since when a clock was wrong that was set back by more than the time between the records before")
    func clockWrongForLong() async throws {
        var book = RecordBook()
        let refused = AuditOutcome.refused(.signingTimeOutsideWindow)
        func request(_ outcome: AuditOutcome, at hours: Double) throws {
            try book.add(Self.decrypt, outcome, at: hours, by: "checkout", key: RecordBook.key)
        }
        try request(.ok, at: 1)
        // The clock is three hours ahead from 01:00 to 06:00, and later than the next record only from 03:30.
        for hours in stride(from: 4.5, through: 9, by: 0.5) { try request(refused, at: hours) }
        try request(.ok, at: 6.25)
        let found = try #require(try await Self.findings(book, .clockSetBack).first)
        #expect(found.first == 6 && found.before == RecordBook.time(6) && found.ahead == RecordBook.time(6.5))
        let page = try book.page()
        #expect(page.contains("set back by at least 2 h 45 min") && !page.contains("set forward between both"))
        #expect(
            page.contains(
                "<td>not recorded</td><td><span class=\"t\">2026-01-01 06:15:00</span></td><td>at least 2 h 30 min</td>"
            ))
    }

    @Test("bounds a wrong clock by the seals around it, and measures it by their times in an HSM token's log")
    func sealsOfClock() async throws {
        var book = RecordBook()
        let refused = AuditOutcome.refused(.signingTimeOutsideWindow)
        func request(_ outcome: AuditOutcome, at hours: Double) throws {
            try book.add(
                Self.decrypt, outcome, at: hours, by: "checkout", key: RecordBook.key,
                hsmToken: outcome == .ok ? "primary" : nil)
        }
        try request(.ok, at: 1)
        try request(refused, at: 1)
        try book.seal(at: 1.25)
        // The clock is three hours ahead from 01:45 to 03:00.
        for hours in [5.0, 5.5] { try request(refused, at: hours) }
        try book.seal(at: 5.75)
        try request(refused, at: 6)
        try book.seal(at: 3.25)
        try request(refused, at: 4)
        try request(.ok, at: 4.5)
        func log(_ seals: [Double]) -> [String] {
            ReconciliationTests.log([1, 4.5]) + ReconciliationTests.log(seals, of: .zero).dropFirst()
        }
        book.tokenUses = [log([1.25, 2.75, 3.25])]
        let found = try #require(try await Self.findings(book, .clockSetBack).first)
        #expect(found.before == RecordBook.time(1.25) && found.lastSeal == RecordBook.time(3.25))
        #expect(found.refusedAhead == RecordBook.time(5)...RecordBook.time(6))
        let page = try book.page()
        for text in [
            "set back by at least 2 h 45 min: a seal of 2026-01-01 03:15:00, and a record of 2026-01-01 04:00:00, follow one ",
            // The node refused requests from 02:00 to 04:00, before and after the clock was set back.
            "<td>at least 2 h, at most 3 h 15 min</td>", "the last at 2026-01-01 04:00:00.",
            "It was set forward between 2026-01-01 01:15:00 and 2026-01-01 02:45:00, ",
            "It was set back between 2026-01-01 02:45:00 and 2026-01-01 03:15:00.",
            "(1) from 2026-01-01 02:45:00 to 2026-01-01 02:45:00: it was ahead by at least 3 h, and at most 3 h and ",
            "refuse requests from 2026-01-01 02:00:00 to 2026-01-01 03:00:00, before it was set back.",
        ] { #expect(page.contains(text), "\(text)") }
        // Which of two uses is the seal, nothing shows.
        book.tokenUses = [log([1.25, 2, 2.75, 3.25])]
        try await book.expectRecounted()
        let other = try book.page()
        #expect(!other.contains("it was ahead by") && other.contains("<td>at least 1 h, at most 3 h 15 min</td>"))
    }

    @Test("says no length of a finding at one moment")
    func moment() async throws {
        var book = RecordBook()
        for _ in 0..<3 {
            try book.add(Self.decrypt, .refused(.hsmUnavailable), at: 1, by: "checkout", key: RecordBook.key)
        }
        #expect(try await Self.findings(book).map(\.kind) == [.hsmUnavailable])
        let page = try book.page()
        #expect(page.contains("<td>at least 0 s</td>") && !page.contains("(0 s)"))
    }

    @Test(
        "rounds the time by which a clock was set back down, and that by which it had been set forward up",
        arguments: [
            (0, "0 s", "0 s"), (1, "0 s", "1 s"), (59_001, "59 s", "1 min"), (60_000, "1 min", "1 min"),
            (14_452_749, "4 h", "4 h 1 min"), (14_399_001, "3 h 59 min", "4 h"), (86_399_999, "23 h 59 min", "1 d"),
            (1_270_000_000, "14 d 16 h", "14 d 17 h"),
        ])
    func bounds(milliseconds: Int64, least: String, most: String) {
        let end = AuditTime(milliseconds: RecordBook.start.milliseconds + milliseconds)
        #expect(RecordBook.start.length(to: end) == least && end.length(to: RecordBook.start) == least)
        #expect(RecordBook.start.length(to: end, roundedUp: true) == most)
    }

    @Test("rounds up the time by which a clock had been set forward, in both implementations")
    func forward() async throws {
        var book = RecordBook()
        for hour in [1.0, 1 + 14_452.749 / 3600, 2] { try book.add(.verify, at: hour, by: "checkout") }
        #expect(try await Self.findings(book).map(\.kind) == [.clockSetBack])
        #expect(try book.page().contains("set forward between both, then by at most 4 h 1 min."))
    }

    @Test("finds three requests in a row for which an HSM token did not answer, but not two, and shows all downtimes")
    func downtimes() async throws {
        var book = RecordBook()
        try book.add(Self.start, at: 0)
        for (hours, isDown) in [(1.0, true), (1.5, true), (2, false), (3, true), (3.5, true), (4, true), (5, false)] {
            try book.add(
                Self.decrypt, isDown ? .refused(.hsmUnavailable) : .ok, at: hours, by: "checkout", key: RecordBook.key)
        }
        try book.add(Self.start, at: 8)
        try book.add(Self.decrypt, at: 9, by: "checkout", key: RecordBook.key)
        for hours in [20.0, 21, 22] {
            try book.add(.csrCreate, .refused(.hsmUnavailable), at: hours, by: "alice", key: RecordBook.key)
        }
        // The daemon failed before an older ledger was restored.
        try book.add(Self.start, at: 30)
        try book.add(Self.restore(14, 41), at: 31, by: "bob")
        let found = try await Self.findings(book)
        #expect(found.map(\.kind) == [.hsmUnavailable, .endedWithoutStop, .hsmUnavailable, .recordsLost])
        #expect(found[0].since == RecordBook.time(3) && found[0].until == RecordBook.time(4) && found[0].count == 3)
        #expect(found[0].nextUse == RecordBook.time(5) && found[2].nextUse == nil)
        #expect(found[0].records.beginning.map(\.sequence) == [5, 6, 7])
        let page = try book.page()
        let rows = try #require(page.range(of: "<h3>Downtimes</h3>")).upperBound
        let table = page[rows..<(try #require(page[rows...].range(of: "</table>")).lowerBound)]
        for (from, to, length) in [
            ("01 02:00:00", "01 05:00:00", "at least 1 h, at most 3 h"),
            ("01 05:00:00", "01 08:00:00", "at least 0 s, at most 3 h"), ("01 20:00:00", "01 22:00:00", "at least 2 h"),
            ("01 22:00:00", "02 07:00:00", "at least 1 h, at most 9 h"),
        ] {
            let times = [from, to].map { "<td><span class=\"t\">2026-01-\($0)</span></td>" }.joined()
            #expect(table.contains("\(times)<td>\(length)</td>"), "\(from)")
        }
    }

    @Test("bounds a downtime by the seals before and after it, too")
    func sealsAround() async throws {
        var book = RecordBook()
        try book.add(Self.start, at: 0)
        try book.add(Self.decrypt, at: 1, by: "checkout", key: RecordBook.key)
        try book.seal(at: 1.5)
        try book.add(Self.start, at: 2)
        try book.seal(at: 3.5)
        for hours in [4.0, 4.1, 4.2] {
            try book.add(Self.decrypt, .refused(.hsmUnavailable), at: hours, by: "checkout", key: RecordBook.key)
        }
        for hours in [5.0, 5.5] { try book.seal(at: hours) }
        try book.add(Self.decrypt, at: 6, by: "checkout", key: RecordBook.key)
        let found = try await Self.findings(book, .endedWithoutStop, .hsmUnavailable)
        #expect(found.map(\.lastSeal) == [RecordBook.time(1.5), nil])
        #expect(found[1].before == RecordBook.time(3.5) && found[1].nextSeal == RecordBook.time(5))
        let page = try book.page()
        for (from, to, length) in [
            ("01:30:00", "02:00:00", "at least 0 s, at most 30 min"),
            ("03:30:00", "05:00:00", "at least 12 min, at most 1 h 30 min"),
        ] {
            let times = [from, to].map { "<td><span class=\"t\">2026-01-01 \($0)</span></td>" }.joined()
            #expect(page.contains("\(times)<td>\(length)</td>"), "\(from)")
        }
    }

    @Test("counts the time without a seal from the earliest time of the records, if the clock was set back")
    func lateAfterSetBack() async throws {
        var book = RecordBook()
        try book.add(.verify, at: 10, by: "checkout")
        try book.seal(at: 10.01)
        for hours in [14.25, 11.75, 14] { try book.add(.verify, at: hours, by: "checkout") }
        try book.seal(at: 14.26)
        try await book.expectRecounted()
        let late = "times: 1; the longest: records 3 to 4, from <span class=\"t\">2026-01-01 11:45:00</span> to "
        #expect(try book.page().contains(late + "<span class=\"t\">2026-01-01 14:15:36</span> (2 h 30 min)"))
    }

    @Test("shows which records an export had, and on which days a person asked for heads")
    func exports() async throws {
        var book = RecordBook()
        for day in [0, 1, 2, 5, 7, 8] { try book.add(.auditHead(), at: Double(day * 24 + 7), by: "dora") }
        try book.add(.auditHead(), at: 8 * 24 + 8, by: "dora")
        try book.add(.auditExport(format: .jsonl, first: 2, last: 5), at: 200, by: "dora")
        try book.add(.auditExport(format: .csv, first: nil, last: nil, ofNode: AuditText("all")), at: 201, by: "bob")
        try book.add(.auditExport(format: .jsonl, first: 1, last: 9), .refused(.overloaded), at: 202, by: "eve")
        try await book.expectRecounted()
        let page = try book.page()
        let days = ["2026-01-01 to 2026-01-03", "2026-01-06", "2026-01-08 to 2026-01-09"]
        #expect(page.contains("dora 7: " + days.map { "<span class=\"t\">\($0)</span>" }.joined(separator: ", ")))
        #expect(page.contains("<td>node-1</td><td>2 to 5</td><td>jsonl</td><td><span class=\"place\">node-1 8<"))
        #expect(page.contains("<td>all</td><td>all, or those that meet conditions</td><td>csv</td>"))
        #expect(try book.counted().acts.exports.map(\.callerText) == ["dora", "bob"])
    }

    @Test("finds that an HSM token did not store the record's end, and after how many starts in the period")
    func headMemoryLost() async throws {
        var book = RecordBook()
        for hours in [1.0, 2, 800] {
            let loss = HeadMemoryLoss(cause: .refused, message: AuditText("C_CreateObject: refused"))
            try book.add(.headMemoryLost(loss), at: hours, hsmToken: "primary")
        }
        let found = try await Self.findings(book)
        #expect(found.map(\.kind) == [.headMemoryLost] && found[0].count == 2 && found[0].hsmToken == "primary")
        #expect(found[0].since == RecordBook.time(1) && found[0].until == RecordBook.time(2))
    }
}
