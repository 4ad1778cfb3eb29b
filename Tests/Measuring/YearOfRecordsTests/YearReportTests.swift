import Foundation
import StrictJSON
import TestSupport
import Testing

/// Compares the report page of a simulated year with the year's actual events. The generator counts events when it
/// decides on them, without reading the records.
@Suite struct YearReportTests {
    @Test("states totals on the page that match the actual events")
    func truth() async throws {
        let directory = try FreshDirectory()
        let year = directory.path("year")
        let made = try await Program.run(
            Program.built("paytokend-year"),
            ["--records", "4000", "--seed", "7", "--seal-after", "86400", "--out", year])
        #expect(made.status == 0, "\(made)")
        let report = try await Program.run(
            Program.built("paytokenctl"),
            ["audit", "report", "--export", "\(year)/records.jsonl", "--out", directory.path("report.html")]
                + ["--since", "2025-11-01", "--until", "2026-10-31", "--token-uses", "\(year)/uses.jsonl"]
                + (1...3).flatMap { ["--public-key", "node-\($0)=\(year)/keys/node-\($0).pem"] })
        #expect(report.status == 0, "\(report)")
        let page = try String(contentsOfFile: directory.path("report.html"), encoding: .utf8)
        let start = try #require(page.range(of: #"id="report">"#)).upperBound
        let end = try #require(page[start...].range(of: "</script>")).lowerBound
        let totals = try Counts(Array(page[start..<end].utf8))
        let truth = try Counts(Array(try Data(contentsOf: URL(filePath: "\(year)/truth.json"))))

        #expect(totals.ends == truth.ends && truth.ends.count == 3)
        let exports = truth.objects("events").filter { $0["event"]?.stringValue == "audit_export" }
        #expect(totals.objects("exports").count == exports.reduce(0) { $0 + Counts.number($1, "records") })
        let (counted, happened) = (
            totals.uses(key: "key", signed: "signed", refused: "refused"),
            truth.uses(key: "publicKeyHash", signed: "signatures", refused: "refusals")
        )
        for (pair, counts) in happened { #expect(counted[pair] == counts, "\(pair)") }
        #expect(Set(counted.keys) == Set(happened.keys))
        #expect(happened.values.contains { $0["- late"] ?? 0 > 0 }, "the year has late tokens")
        let sums = totals.objects("reasons").map { ($0["code"]?.stringValue ?? "", Counts.number($0, "summary")) }
        #expect(
            Dictionary(uniqueKeysWithValues: sums).filter { $0.value > 0 }
                == Counts.numbers(truth.object["refusalSummaries"]?.objectValue?["refusals"]))
        expectSameKeys(totals, truth)
        expectSameSystem(totals, truth)
        try expectFindings(totals, truth, page)
        try expectUnrecordedFound(totals, truth, page)
        try await expectRecounted(page, in: directory)
    }

    /// Expects the page to show, for each key, exactly the uses in the HSM that have no record: the insider's, and those
    /// whose records were lost. Failed requests and imports are not near them, so they explain none.
    private func expectUnrecordedFound(_ totals: Counts, _ truth: Counts, _ page: String) throws {
        let compared = try #require(totals.object["tokenUses"]?.arrayValue?.first?.objectValue?["keys"]?.arrayValue)
        var unexplained = compared.compactMap(\.objectValue).reduce(into: [String: Int]()) {
            $0[$1["key"]?.stringValue ?? ""] = Counts.number($1, "unexplained")
        }
        #expect(compared.allSatisfy { $0.objectValue.map { Counts.number($0, "missing") } == 0 })
        for key in truth.objects("keys") {
            let hash = try #require(key["publicKeyHash"]?.stringValue)
            #expect(
                unexplained[hash] == Counts.number(key, "unrecordedUses") + Counts.number(key, "lostUses"), "\(hash)")
            unexplained[hash] = nil
        }
        // The remaining keys are audit keys, whose signatures are in the record, except those of lost audit checkpoints. The
        // times of audit checkpoints that a wrong clock has set match no signature.
        let seals = (truth.objects("losses") + truth.objects("clockSteps")).reduce(0) {
            $0 + Counts.number($1, "seals")
        }
        #expect(seals > 0 && unexplained.values.reduce(0, +) == seals)
        let insider = truth.objects("keys").reduce(0) { $0 + Counts.number($1, "unrecordedUses") }
        let lost = truth.objects("keys").reduce(seals) { $0 + Counts.number($1, "lostUses") }
        let sentence =
            "\(insider + lost) uses of keys in no record: at most \(lost) explained by lost records or a "
            + "wrong clock, at least \(insider) "
        #expect(page.contains("<strong>\(sentence)unexplained.</strong>"))
        let kinds = Set(totals.objects("findings").compactMap { $0["kind"]?.stringValue })
        #expect(kinds.isDisjoint(with: ["uncounted_uses", "uses_beyond_loss", "other_operation", "short_log"]))
        let findings = totals.objects("findings").filter { $0["kind"]?.stringValue == "unrecorded_uses" }
        #expect(findings.reduce(0) { $0 + Counts.number($1, "count") } == insider)
    }

    private static let verifier = ProjectFiles.path("scripts/verify-audit")

    /// Expects `scripts/verify-audit --report` to confirm the page, and to reject a page with any other content.
    private func expectRecounted(_ page: String, in directory: FreshDirectory) async throws {
        let year = directory.path("year")
        func check(_ page: String, _ name: String) async throws -> ProgramResult {
            try await Program.run(
                Self.verifier,
                ["--report", directory.write(page, to: name), "\(year)/records.jsonl"]
                    + (1...3).map { "node-\($0)=\(year)/keys/node-\($0).pem" } + ["--token-uses", "\(year)/uses.jsonl"])
        }
        let same = try await check(page, "same.html")
        // No head shows that the last seals were the end.
        #expect(same.status == 2, "\(same)")
        #expect(same.output.hasSuffix(" and of the HSM tokens' logs\n"), "\(same.output)")
        let changes: [(name: String, from: any RegexComponent, to: String, says: String)] = [
            ("released", /"released":\{"count":[0-9]+/, "\"released\":{\"count\":1000001", "the page says 1000001"),
            ("state", /"state":"compromised"/, "\"state\":\"active\"", "the export \"compromised\""),
            ("figure", /<a href="#f1">[0-9,]+</, "<a href=\"#f1\">1,000,001<", "the page was changed"),
            ("lapsed", /"end":"expire","count":1/, "\"end\":\"expire\",\"count\":2", "endsOfApprovals."),
            ("period", /"since":"2025-11-01T/, "\"since\":\"2025-12-01T", "report: "),
            ("bar", /"from":"2026-01-05","count":[0-9]+/, "\"from\":\"2026-01-05\",\"count\":0", "charts."),
            ("sums", /"summary":[1-9][0-9]*/, "\"summary\":3", "summary: the page says 3"),
            ("late", /"superseded":"2026-0/, "\"superseded\":\"2026-1", "superseded: the page says"),
            (
                "day", /"counted":[0-9]+,"unexplained":[0-9]+,"losses"/, "\"counted\":9,\"unexplained\":1,\"losses\"",
                "tokenUses.0."
            ),
            ("token", /"least":[1-9][0-9]+,"most"/, "\"least\":0,\"most\"", "tokenUses.0."),
            ("last", /"records":[0-9]+,"inPeriod"/, "\"records\":1,\"inPeriod\"", "nodes.0.records"),
            ("finding", /"kind":"own_request"/, "\"kind\":\"replays\"", "findings."),
            ("payments", /"payments":[0-9]+/, "\"payments\":1", "findings."),
            ("loss", /"kind":"records_lost".*?"count":[0-9]+/, "\"kind\":\"records_lost\",\"count\":1", "findings."),
            (
                "refused caller", /"refusals":\[\{"caller":"[^"]*"/, "\"refusals\":[{\"caller\":\"root\"",
                "refusals.0.caller"
            ),
        ]
        for change in changes {
            let changed = page.replacing(change.from, with: change.to, maxReplacements: 1)
            #expect(changed != page, "\(change.name)")
            let result = try await check(changed, "\(change.name).html")
            #expect(result.status == 1 && result.output.contains(change.says), "\(change.name): \(result)")
        }
        for (name, text) in [
            ("none", "<html></html>"), ("format", page.replacing("{\"format\":6,", with: "{\"format\":1,")),
        ] {
            let result = try await check(text, "\(name).html")
            #expect(result.status == 66 && result.error.contains("report"), "\(name): \(result)")
        }
    }

    private func expectFindings(_ totals: Counts, _ truth: Counts, _ page: String) throws {
        let findings = Dictionary(grouping: totals.objects("findings")) { $0["kind"]?.stringValue ?? "" }
        // The start after the restore is no end of its own.
        let crashes = truth.objects("starts").count { $0["isAfterCrash"]?.boolValue == true }
        #expect(findings["ended_without_stop"]?.count == crashes - truth.objects("restores").count)
        #expect(findings["clock_set_back"]?.count == 1 && findings["clock_accepted"]?.count == 1)
        let loss = try #require(truth.objects("losses").first)
        let (copyEnd, lost) = (Counts.number(loss, "copyEndsAt"), Counts.number(loss, "records"))
        let found = try #require(findings["records_lost"]?.first)
        #expect(Counts.number(found, "first") == copyEnd + 1 && Counts.number(found, "count") == lost)
        #expect(Counts.number(found, "last") == copyEnd + lost)
        let dropped = truth.objects("droppedRecords").reduce(0) { $0 + Counts.number($1, "count") }
        #expect(findings["records_dropped"]?.reduce(0) { $0 + Counts.number($1, "count") } == dropped)
        #expect(page.contains("Intact, but not whole: 2 losses of at least \(lost + dropped) records.<"))
        let replays = findings["replays", default: []]
        #expect(replays.contains { Counts.number($0, "count") == Counts.number(truth.object, "burstReplays") })
        let own = try #require(findings["own_request"]?.first)
        #expect(own["caller"]?.stringValue == "alice")
        // The insider's account opens payment tokens at an hour at which it never worked.
        let habits = Set(truth.objects("outsideHabit").compactMap { $0["caller"]?.stringValue })
        let unusual = (findings["unusual_hour", default: []] + findings["busy_hour", default: []]).compactMap {
            $0["caller"]?.stringValue
        }
        #expect(habits.isSubset(of: unusual), "\(habits) \(unusual)")
        #expect(findings["many_refusals"]?.map { Counts.number($0, "count") } == [880])
        let step = try #require(truth.objects("clockSteps").first)
        let back = try #require(findings["clock_set_back"]?.first)
        #expect(Counts.number(back, "first") == Counts.number(step, "lastBefore") + 1)
        #expect(Counts.number(back, "last") == Counts.number(step, "lastAhead"))
        #expect(findings["key_compromised"]?.count == 1 && findings["certificate_refused"]?.count == 1)
        #expect(findings["software_token"]?.count == 3)
    }

    private func expectSameKeys(_ totals: Counts, _ truth: Counts) {
        let counted = Dictionary(
            uniqueKeysWithValues: totals.objects("keys").map { ($0["key"]?.stringValue ?? "", $0) })
        let keys = truth.objects("keys")
        #expect(keys.count == counted.count && keys.count >= 6)
        for key in keys {
            let name = key["publicKeyHash"]?.stringValue ?? ""
            let successor = counted[name]?["successor"]?.objectValue?["opened"]?.objectValue?["requests"]?.objectValue
            #expect(successor.map { Counts.number($0, "count") } ?? 0 == Counts.number(key, "usesAfterSuccession"))
            #expect(counted[name]?["algorithm"] == key["algorithm"] && counted[name]?["certificateEnd"] != nil)
            let life = (counted[name]?["life"]?.arrayValue ?? []).compactMap(\.objectValue)
            for (state, member) in [
                (nil, "created"), ("deactivated", "deactivated"), ("compromised", "compromised"),
                ("destroyed", "destroyed"),
            ] {
                let step = state == nil ? life.first : life.first { $0["state"]?.stringValue == state }
                #expect(step?["record"]?.stringValue == Counts.place(key[member]), "\(name), \(member)")
            }
        }
    }

    private func expectSameSystem(_ totals: Counts, _ truth: Counts) {
        let nodes = totals.objects("nodes")
        for name in ["starts", "stops"] {
            #expect(nodes.reduce(0) { $0 + Counts.figure($1, name) } == truth.objects(name).count)
        }
        let moments = totals.objects("moments").map { $0["what"]?.stringValue }
        #expect(moments.count { $0 == "restore" } == truth.objects("restores").count)
        #expect(moments.count { $0 == "clock" } == truth.objects("clockSteps").count)
        #expect(
            totals.ends(of: "endsOfApprovals") == Counts.numbers(truth.object["approvalsByDecision"]))
    }
}

/// The totals of a page, or those of a year's truth file.
private struct Counts {
    let object: JSONObject

    init(_ bytes: [UInt8]) throws {
        object = try #require(try JSONValue(parsing: bytes).objectValue)
    }

    /// Returns the numbers of an object by their names, without those that are 0.
    static func numbers(_ value: JSONValue?) -> [String: Int] {
        var numbers: [String: Int] = [:]
        for member in value?.objectValue?.members ?? [] {
            if let number = member.value.numberValue?.int, number != 0 { numbers[member.name] = number }
        }
        return numbers
    }

    static func number(_ object: JSONObject, _ name: String) -> Int { object[name]?.numberValue?.int ?? 0 }

    /// Reads a position in the form of the truth file: `{"at":{"node":…,"sequence":…}}`.
    static func place(_ value: JSONValue?) -> String? {
        guard let at = value?.objectValue?["at"]?.objectValue else { return nil }
        return "\(at["node"]?.stringValue ?? "") \(number(at, "sequence"))"
    }

    /// Returns the counts of a list whose elements have `end` and `count`.
    func ends(of name: String) -> [String: Int] {
        objects(name).reduce(into: [:]) { $0[$1["end"]?.stringValue ?? ""] = Self.number($1, "count") }
    }

    /// Returns a count that a page has as a figure, and a truth file as a number.
    static func figure(_ object: JSONObject, _ name: String) -> Int {
        object[name]?.objectValue.map { number($0, "count") } ?? number(object, name)
    }

    func objects(_ name: String) -> [JSONObject] { (object[name]?.arrayValue ?? []).compactMap(\.objectValue) }

    var ends: [String] {
        objects("nodes").map {
            "\($0["node"]?.stringValue ?? "") \(Self.number($0, "first")) \(Self.number($0, "last"))"
        }.sorted()
    }

    /// Returns the numbers of uses by key and caller.
    func uses(key: String, signed: String, refused: String) -> [String: [String: Int]] {
        objects("uses").reduce(into: [:]) { uses, use in
            var counts = Self.numbers(use[refused])
            let lateOfKey = objects("findings").first {
                $0["kind"]?.stringValue == "used_after_superseded" && $0["key"] == use[key]
            }
            let late = lateOfKey?["callers"]?.arrayValue?.compactMap(\.objectValue).first {
                $0["caller"] == use["caller"]
            }
            for refusal in use[refused]?.arrayValue?.compactMap(\.objectValue) ?? [] {
                counts[refusal["code"]?.stringValue ?? ""] = Self.number(refusal, "count")
            }
            counts["- released"] = Self.figure(use, "released")
            counts["- repeated"] = Self.figure(use, "repeated")
            counts["- signed"] = Self.figure(use, signed)
            counts["- late"] = late.map { Self.number($0, "count") } ?? Self.number(use, "afterSuperseded")
            uses["\(use[key]?.stringValue ?? "none") \(use["caller"]?.stringValue ?? "none")"] = counts
        }
    }
}
