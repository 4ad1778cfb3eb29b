import Foundation
import StrictJSON
import TestSupport
import Testing

@testable import AuditReport

/// The sample report after a forger changed it. `scripts/verify-audit --report` finds each change of the page, and each
/// change of a fact that is in the export, even if the whole page was made again.
@Suite("Forged reports")
struct ForgeryTests {
    private static let folder = "Tests/Records/SampleReport"

    private static func sample() throws -> String {
        try String(contentsOfFile: ProjectFiles.path("\(folder)/report.html"), encoding: .utf8)
    }

    private static let log = ProjectFiles.path("\(folder)/report.uses-primary.jsonl")

    private static func recounted(
        _ page: String, with log: String? = log, in directory: FreshDirectory
    ) async throws -> ProgramResult {
        try await Program.run(
            ProjectFiles.path("scripts/recount-report"),
            ["--intact", directory.write(page, to: "report.html"), ProjectFiles.path("\(folder)/report.jsonl")]
                + (log.map { [$0] } ?? []))
    }

    struct Change: Sendable, CustomTestStringConvertible {
        let name: String
        let pattern: String
        let by: String
        var testDescription: String { name }

        init(_ name: String, _ pattern: String, _ by: String = "") {
            (self.name, self.pattern, self.by) = (name, pattern, by)
        }

        func made(to text: String) throws -> String {
            let pattern = try Regex(pattern).dotMatchesNewlines()
            let changed = text.replacing(pattern, maxReplacements: 1) { _ in by }
            #expect(changed != text, "\(name) changes nothing")
            return changed
        }
    }

    @Test(
        "finds a page that was changed",
        arguments: [
            Change("verdict box deleted", #"<div class="verdict bad">.*?</div>\n"#),
            Change(
                "verdict made good", #"class="verdict bad"><strong>Intact, but"#,
                #"class="verdict good"><strong>Intact, but"#),
            Change("loss deleted", "<li>Node [^\n]*at least(?:[^\n]*\n)+?</li>\n"),
            Change("restore row deleted", "<tr><td>An older ledger was taken into service[^\n]*</tr>\n"),
            Change(
                "self-approval row deleted",
                "<tr>[^\n]*\nA person tried to approve their own request[^\n]*\n</td>[^\n]*</tr>\n"),
            Change("replay row deleted", "<tr><td><code>transaction_replayed</code>[^\n]*</tr>\n"),
            Change("approver changed", "approved by bob", "approved by carol"),
            Change("date moved", "<span class=\"t\">2026-0", "<span class=\"t\">2026-1"),
            Change(
                "token's count edited", #"<td class="n"><strong>[0-9]+</strong></td>"#,
                #"<td class="n"><strong>1</strong></td>"#),
            Change("linked figure edited", ##"<a href="#f1">[0-9,]+<"##, ##"<a href="#f1">1<"##),
            Change("list of records edited", #"<tr id="f1">.*?</tr>"#, #"<tr id="f1"><td class="n">1</td></tr>"#),
            Change("heading", "2\\. Findings", "2. No findings"),
            Change("style that hides findings", "</style>", "#findings + table { display: none } </style>"),
            Change("hidden row", "<tr><td>", "<tr style=\"display:none\"><td>"),
            Change("added row", "</tbody></table>", "<tr><td>all is well</td></tr></tbody></table>"),
            Change("added script", "</body>", "<script>document.title = 'clean'</script></body>"),
            Change("policy removed", "<meta http-equiv=[^\n]*>\n"),
            Change("comment", "<h2 id=\"findings\">", "<!-- <h2 id=\"findings\">"),
            Change("one blank", "<h2 id=\"findings\">", "<h2  id=\"findings\">"),
            Change("line feed at the end", "</html>\n", "</html>\n\n"),
            Change("text before the page", "<!doctype html>", " <!doctype html>"),
            Change("words of the template", "proves nothing", "proves everything"),
            Change("command", "verify-audit --report", "verify-audit"),
            Change("chart bar", #"height="[0-9]+"><title>"#, #"height="0"><title>"#),
            Change("JSON with a blank", #"\{"format":6,"#, #"{"format": 6,"#),
            Change("JSON with a member twice", #"\{"format":6,"#, #"{"format":6,"format":6,"#),
            Change("JSON alone", #""kind":"own_request""#, #""kind":"first_use""#),
        ])
    func changedPage(change: Change) async throws {
        let result = try await Self.recounted(change.made(to: Self.sample()), in: FreshDirectory())
        #expect(result.status == 1 && result.output.contains("the page was changed: line "), "\(result)")
    }

    /// Returns the JSON of a page.
    private static func report(_ page: String) throws -> String {
        let start = try #require(page.range(of: #"id="report">"#)).upperBound
        return String(page[start..<(try #require(page[start...].range(of: "</script>")).lowerBound)])
    }

    private static func made(_ report: String) throws -> String {
        try #require(ReportPage.template).render(JSONValue(parsing: report))
    }

    @Test(
        "finds a page that was made again from changed facts",
        arguments: [
            Change("losses removed", #""losses":\{"count"[^}]*\},"#),
            Change("restore removed", #"\{"what":"restore"[^}]*\},"#),
            Change("self-approval removed", #"\{"kind":"own_request"[^}]*\}\},"#),
            Change("replays renamed", #""code":"transaction_replayed""#, #""code":"amount_mismatch""#),
            Change(
                "refused uses after a compromise", #"("kind":"key_compromised".*?)"count":[0-9]+"#,
                #""kind":"key_compromised""#),
            Change("approver of a key's step", "approved by bob", "approved by carol"),
            Change("approver of a request", #""decidedBy":"bob""#, #""decidedBy":"carol""#),
            Change("act removed", #""acts":\[\{[^}]*\},"#, #""acts":["#),
            Change(
                "act's outcome", #""event":"csr_create","outcome":"[^"]*""#,
                #""event":"csr_create","outcome":"ok2""#),
            Change(
                "date of a key's step", #""step":"state","state":"compromised","time":"2026-0"#,
                #""step":"state","state":"compromised","time":"2026-1"#),
            Change("period of service", #""days":[0-9]+\}"#, #""days":1}"#),
            Change("released payment tokens", #""released":\{"count":[0-9]+"#, #""released":{"count":1"#),
            Change("records of a figure", #""records":\["node-1 [0-9]+""#, #""records":["node-1 1""#),
            Change(
                "refusals of a caller", #"("refusals":\[\{"caller":"[^"]*","count":)[0-9]+"#,
                #""refusals":[{"caller":"shop","count":1"#),
            Change("worst hour", #""inWorstHour":[0-9]+"#, #""inWorstHour":1"#),
            Change(
                "late uses", #"("kind":"used_after_superseded".*?)"count":[0-9]+"#, #""kind":"used_after_superseded""#),
            Change(
                "late callers", #""callers":\[\{"caller":"checkout-app"(?=[^\]]*\],"records")"#,
                #""callers":[{"caller":"shop""#),
            Change("deactivation", #""superseded":"2026-0"#, #""superseded":"2026-1"#),
            Change("HSM token that did not answer", #"\{"kind":"hsm_unavailable".*?"records":\{[^}]*\}\},"#),
            Change(
                "record before those not written", #""previous":\{"record":"node-1 [0-9]+""#,
                #""previous":{"record":"node-1 1""#),
            Change("who opened replayed payments", #""openers":\[\{"caller":"[^"]*""#, #""openers":[{"caller":"shop""#),
            Change("when replayed payments were opened", #""opened":\{"first":"2026-0"#, #""opened":{"first":"2026-1"#),
            Change("uses by the hour of the day", #""hours":\[0,"#, #""hours":[7,"#),
            Change(
                "last use before a key was blocked", #""lastUse":"2026-0(?=[0-9T:.-]*Z","refused")"#,
                #""lastUse":"2026-1"#),
            Change(
                "end of an export", #""format":"jsonl","first":1,"last":[0-9]+"#,
                #""format":"jsonl","first":1,"last":9999"#),
            Change("export removed", #""exports":\[\{[^}]*\},"#, #""exports":["#),
            Change("day of a head", #""days":\[\{"from":"2025"#, #""days":[{"from":"2024"#),
            Change("unexplained uses of an hour", #""hours":\[\{"uses":37"#, #""hours":[{"uses":1"#),
            Change("uses that an HSM token counted", #""counted":[0-9]+,"least""#, #""counted":0,"least""#),
            Change("finding of an HSM token's log", #"\{"kind":"unrecorded_uses"[^}]*\},"#),
            Change("seals of a loss", #""signed":\{"count":[0-9]+"#, #""signed":{"count":99"#),
            Change("log's file", #""file":"report.uses-primary.jsonl""#, #""file":"other.jsonl""#),
            Change(
                "loss compared with a log", #"("losses":\[\{"node":"node-2","first":)[0-9]+"#,
                #""losses":[{"node":"node-2","first":1"#),
            Change("lost record with a wrong clock", #","clock":true"#),
            Change(
                "trusted audit key", #""pins":\[\{"node":"node-1","ofNode":"node-2""#,
                #""pins":[{"node":"node-1","ofNode":"node-9""#),
            Change("downtime of a wrong clock", #""refused":[0-9]+,"forward":true"#, #""refused":99"#),
            Change("backup's SHA-256", #""sha256":"[0-9a-f]{8}(?=[0-9a-f]*","bytes")"#, #""sha256":"00000000"#),
            Change("payment tokens before a warning", #""dayBefore":[0-9]+"#, #""dayBefore":7777"#),
            Change("first lost seal", #""first":"2026-0(?=[^"]*","near")"#, #""first":"2026-1"#),
            Change(
                "record nearest to an unrecorded use", #""before":\{"record":"node-[0-9]"#,
                #""before":{"record":"node-9"#
            ),
            Change("chart", #""bars":\[\{"at":[0-9]+"#, #""bars":[{"at":60"#),
            Change("seal", #""sealed":[0-9]+"#, #""sealed":1"#),
            Change("head's reader", #""headReaders":\[\{"by":"[^"]*""#, #""headReaders":[{"by":"nobody""#),
            Change("program", #""paytokend":"[0-9a-f]{8}"#, #""paytokend":"00000000"#),
            Change("access rule", #""roles":"admin"#, #""roles":"audit"#),
            Change("setting", #""name":"approvals.people","value":"2""#, #""name":"approvals.people","value":"3""#),
            Change("threshold", #""replays":10"#, #""replays":100"#),
            Change("export's digest", #""sha256":"[0-9a-f]{8}"#, #""sha256":"00000000"#),
            Change("reader of the record", #""readings":\[\{"by":"[^"]*""#, #""readings":[{"by":"nobody""#),
            Change(
                "key's algorithm", #""algorithm":"EC","bits":256,"state""#, #""algorithm":"RSA","bits":2048,"state""#),
            Change("key's certificate", #""certificateEnd":"2027"#, #""certificateEnd":"2037"#),
            Change(
                "certificate's SHA-256", #""certificateSha256":"[0-9a-f]{8}"#, #""certificateSha256":"00000000"#),
            Change(
                "size of an audit key", #""algorithm":"EC","bits":256(?=[^}]*"seals")"#,
                #""algorithm":"RSA","bits":2048"#),
            Change("last head of a node", #""lastHead":\{"time":"202"#, #""lastHead":{"time":"203"#),
            Change("records after the last head", #""later":[0-9]+"#, #""later":7777"#),
            Change("lost records that show no use", #","withoutUse":[0-9]+"#),
            Change(
                "time by which a clock was ahead", #""least":"[^"]*","most":"[^"]*""#,
                #""least":"1 s","most":"1 s""#),
            Change("issuer", #""issuer":"CN=Sim"#, #""issuer":"CN=Com"#),
            Change("node that removed a key", #""removedOn":\["node-2""#, #""removedOn":["node-1""#),
            Change("attribute", #""extractable":true"#, #""extractable":false"#),
            Change("warnings of a key removed", #""warnings":\[\{.*?\]"#, #""warnings":[]"#),
            Change("HSM token's firmware", #""firmware":"[^"]*""#, #""firmware":"9.9""#),
            Change("validation", #""validation":"[^"]*""#, #""validation":"FIPS 140-3""#),
            Change(
                "age of a PIN", #"("name":"tokens.primary.pin_digest","since":")2026"#,
                #""name":"tokens.primary.pin_digest","since":"2027"#),
            Change("weekly readings", #""programReadings":\{"count":[0-9]+"#, #""programReadings":{"count":99"#),
            Change("downtime removed", #""downtimes":\[\{[^}]*\},"#, #""downtimes":["#),
            Change("cut-off", #""cutOff":"2026-0"#, #""cutOff":"2026-1"#),
            Change("callers after a compromise", #""callers":\[\{"caller":"[^"]*""#, #""callers":[{"caller":"shop""#),
            Change("clock set forward", #""ahead":"2026-0"#, #""ahead":"2026-1"#),
            Change("flood removed", #"\{"kind":"many_refusals"[^}]*\}\},"#),
            Change(
                "head before a loss", #""heads":\{"before":\{"time":"2026-0"#,
                #""heads":{"before":{"time":"2026-1"#),
            Change("heads removed", #""heads":\{[^\]]*\]"#, #""heads":{"elsewhere":[]"#),
            Change("warned key removed", #"\{"kind":"key_attributes".*?"records":\{[^}]*\}\},"#),
            Change(
                "payment tokens since a warning", #"("kind":"key_attributes".*?)"count":[0-9]+"#,
                #""kind":"key_attributes""#),
            Change(
                "log of another HSM token", #""serial":"1a2b3c4d5e6f","recordedSerials""#,
                #""serial":"00","recordedSerials""#),
            Change("recorded serial number", #""recordedSerials":\["1a2b3c4d5e6f"\]"#, #""recordedSerials":["00"]"#),
            Change("sums of a reason", #""summary":[1-9][0-9]*"#, #""summary":0"#),
            Change("refused by a wrong clock", #""refused":[0-9]+,"refusedBefore""#, #""refused":99,"refusedBefore""#),
            Change("refused before the clock was set back", #""refusedBefore":2"#, #""refusedBefore":3"#),
            Change(
                "decisions", #""decisions":\[\{"decision":"approve","count":[0-9]+"#,
                #""decisions":[{"decision":"approve","count":99"#),
            Change("operations in a log", #""operation":"derive","count":[0-9]+"#, #""operation":"derive","count":1"#),
            Change(
                "since when another key served", #""successor":\{"since":"2026-0"#, #""successor":{"since":"2026-1"#),
            Change("warning of a key with unrecorded uses", #""warned":"2026-0"#, #""warned":"2026-1"#),
            Change("explained uses", #""explainable":[0-9]+"#, #""explainable":7777"#),
            Change(
                "seals in no record", #""seals":[0-9]+,"explainableSeals""#, #""seals":7777,"explainableSeals""#),
            Change("late seals", #""late":\{"count":1"#, #""late":{"count":7"#),
            Change("node of an audit key", #""auditKeys":\[\{"node":"node-1"#, #""auditKeys":[{"node":"node-2"#),
            Change("downtime before a restore", #""started":"2026-0"#, #""started":"2026-1"#),
            Change("keys of replays", #""keys":\[\{"key":"[^"]*","merchant""#, #""keys":[{"key":"","merchant""#),
            Change("seals within lost records", #""explainableSeals":[0-9]+"#, #""explainableSeals":7777"#),
            Change("uses of a key", #""opened":[0-9]+,"again""#, #""opened":7777,"again""#),
            Change("last attributes of a destroyed key", #""modifiable":true"#, #""modifiable":false"#),
            Change("least time of a downtime", #""least":"[1-9][^"]*""#, #""least":"0 s""#),
            Change("last seal before a kill", #""sealed":"2026-0"#, #""sealed":"2026-1"#),
            Change("seal after an outage", #""nextSeal":"202"#, #""nextSeal":"203"#),
            Change("records that end early", #""early":[0-9]+,"#, ""),
            Change("last refusal of a wrong clock", #""refusedUntil":"2"#, #""refusedUntil":"3"#),
            Change("least uses", #""least":[0-9]+,"most""#, #""least":0,"most""#),
        ])
    func changedFacts(change: Change) async throws {
        let report = try Self.report(Self.sample())
        let result = try await Self.recounted(Self.made(change.made(to: report)), in: FreshDirectory())
        #expect(result.status == 1 && !result.output.contains("the page was changed"), "\(result)")
        #expect(result.output.contains("report: "), "\(result)")
    }

    @Test("accepts the unchanged page, and the same page made again; does not find what the export cannot show")
    func unchanged() async throws {
        let page = try Self.sample()
        #expect(try Self.made(Self.report(page)) == page)
        let directory = try FreshDirectory()
        // Without a head, a person may have cut off the end of the export and made the page again.
        let head = ["--head", ProjectFiles.path("\(Self.folder)/heads.jsonl")]
        for (heads, status) in [([], 2), (head, 0)] as [([String], Int32)] {
            let verified = try await Program.run(
                ProjectFiles.path("scripts/verify-audit"),
                ["--report", ProjectFiles.path("\(Self.folder)/report.html")]
                    + [ProjectFiles.path("\(Self.folder)/report.jsonl")]
                    + ["node-1=\(ProjectFiles.path("\(Self.folder)/report.pem"))", "--pinned-by", "node-1"]
                    + ["--token-uses", Self.log] + heads)
            #expect(verified.status == status, "\(verified)")
            #expect(verified.output.hasSuffix(" and of the HSM tokens' logs\n"), "\(verified)")
            #expect(verified.error.contains("nothing shows that the last seal was the end") == heads.isEmpty)
            #expect(verified.error.contains("no given head shows it; around it: record ") != heads.isEmpty)
        }
        // A page has the facts of all nodes, so its nodes are verified together.
        let one = try await Program.run(
            ProjectFiles.path("scripts/verify-audit"),
            [
                "--report", ProjectFiles.path("\(Self.folder)/report.html"),
                ProjectFiles.path("\(Self.folder)/report.jsonl"),
            ]
                + ["node-1=\(ProjectFiles.path("\(Self.folder)/report.pem"))", "--node", "node-1"] + head)
        #expect(one.status == 64, "\(one)")
        // Without the log, forged counts are not found. The script says so, and does not end with 0.
        let forged = try Change("counts", #""counted":[0-9]+,"least""#, #""counted":0,"least""#).made(
            to: Self.report(page))
        let blind = try await Self.recounted(Self.made(forged), with: nil, in: directory)
        #expect(
            blind.status == 2 && blind.output.hasPrefix("report: not checked: what the page says of uses by report."))
        // The program that made the page is not in the export; ReportFigures and the page say so.
        let other = try Change("version", #""version":"[^"]*""#, #""version":"9.9.9""#).made(to: Self.report(page))
        #expect(try await Self.recounted(Self.made(other), in: directory).status == 0)
        let strange = try directory.write("{}\n", to: "strange.jsonl")
        #expect(try await Self.recounted(page, with: strange, in: directory).status == 66)
    }

    @Test("names a removed and an added finding as such, and not as differences of the others")
    func removedAndAdded() async throws {
        let report = try Self.report(Self.sample())
        let finding = #"\{"kind":"unrecorded_uses"[^}]*\},"#
        let removed = try Change("removed", finding).made(to: report)
        let result = try await Self.recounted(Self.made(removed), in: FreshDirectory())
        let lines = result.output.split(separator: "\n")
        #expect(
            lines.count == 1 && lines[0].hasPrefix(#"report: findings: the page lacks {"kind":"unrecorded_uses""#),
            "\(result)")
        let other = #""findings":[{"kind":"made_up","time":"x"},"#
        let added = try Change("added", #""findings":\["#, other).made(to: report)
        let found = try await Self.recounted(Self.made(added), in: FreshDirectory())
        #expect(found.output.hasPrefix("report: findings.0: only the page has {\"kind\":\"made_up\""), "\(found)")
    }

    @Test("lists in the article the members that the script counts again")
    func members() async throws {
        let article = try String(
            contentsOfFile: ProjectFiles.path("Sources/Records/AuditReport/Documentation.docc/ReportFigures.md"),
            encoding: .utf8)
        let listed = try await Program.run(ProjectFiles.path("scripts/recount-report"), ["--members"])
        #expect(listed.status == 0 && article.contains(listed.output), "\(listed)")
    }
}
