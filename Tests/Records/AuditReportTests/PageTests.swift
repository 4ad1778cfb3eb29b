import AuditChain
import Foundation
import StrictJSON
import TestSupport
import Testing

@testable import AuditReport

@Suite("The report's page")
struct PageTests {
    private static let hostile = #"</script><img src=x onerror="alert(1)">'&"#

    /// A record book whose names and reasons contain markup, which the page must show as text.
    private static func book() throws -> RecordBook {
        var book = RecordBook()
        try book.add(.start(version: AuditText(hostile)), at: 0)
        try book.add(
            .keyImport(certificate: nil, approval: nil), at: 1, by: hostile, key: RecordBook.key, merchant: hostile)
        for hours in 2..<12 {
            try book.add(
                .decrypt(reference: nil), at: Double(hours), by: hostile, key: RecordBook.key, merchant: hostile)
        }
        try book.add(
            .keyStateChange(KeyStateChange(from: nil, to: .suspended, reason: AuditReason(hostile))), at: 20,
            by: "alice", key: RecordBook.key)
        return book
    }

    @Test("escapes names and reasons from records, in the JSON element too")
    func escaped() throws {
        let page = try Self.book().page()
        #expect(!page.contains("<img") && page.contains("&lt;img"))
        #expect(page.components(separatedBy: "</script>").count == 2, "the one that ends the JSON")
        #expect(page.contains(#"\u003c/script>"#))
    }

    @Test("runs no script and loads no other file")
    func selfContained() throws {
        let page = try Self.book().page()
        #expect(page.contains("default-src 'none'; style-src 'unsafe-inline'"))
        for mark in [" src=", "href=\"http", "url(", "@import", "<link", "javascript:", " onerror=", "<iframe"] {
            let outside = page.replacing("&lt;img src=x onerror=&quot;", with: "")
                .replacing(#"\u003cimg src=x onerror="#, with: "")
            #expect(!outside.contains(mark), "\(mark)")
        }
        #expect(page.components(separatedBy: "<script").count == 2)
        #expect(page.contains(#"<script type="application/json" id="report">"#))
    }

    @Test("links every figure to its records, and contains every record that it names")
    func figures() throws {
        let page = try Self.book().page()
        let linked = page.matches(of: /href="#f([0-9]+)">([0-9,]+)</)
        #expect(!linked.isEmpty)
        for match in linked {
            #expect(page.contains("id=\"f\(match.1)\""), "figure \(match.1)")
        }
        // The fixture's ten decryptions are records 3 to 12.
        #expect(page.contains("node-1: 10 from 3 to 12; first: node-1 3, node-1 4"))
    }

    @Test("contains the report as JSON that a program can read")
    func json() throws {
        let page = try Self.book().page()
        let start = try #require(page.range(of: #"id="report">"#)).upperBound
        let end = try #require(page[start...].range(of: "</script>")).lowerBound
        let report = try JSONValue(parsing: String(page[start..<end])).objectValue
        #expect(report?["format"]?.numberValue?.int == 6)
        let released = report?["uses"]?.arrayValue?.first?.objectValue?["released"]?.objectValue
        #expect(released?["count"]?.numberValue?.int == 10)
    }

    @Test("has a command that computes a record's hash from the export alone")
    func hashByHand() async throws {
        let folder = ProjectFiles.path("Tests/Records/SampleReport")
        let page = try String(contentsOfFile: folder + "/report.html", encoding: .utf8)
        let start = try #require(page.range(of: "<pre>python3 -c ")).lowerBound
        let command = page[start...].dropFirst(5).prefix { $0 != "<" }
        let result = try await Program.run("/bin/sh", ["-c", "cd '\(folder)' && \(command)"])
        let hashes = result.output.split(whereSeparator: \.isWhitespace)
        #expect(result.status == 0 && hashes.count == 2 && hashes.first == hashes.last, "\(result)")
        let export = try String(contentsOfFile: folder + "/report.jsonl", encoding: .utf8)
        let line = try #require(
            export.split(separator: "\n").first { $0.hasPrefix(#"{"node":"node-1","sequence":17,"#) })
        #expect(hashes.last.map { line.hasSuffix("\"hash\":\"\($0)\"}") } == true)
    }

    @Test("names the files that check it with their SHA-256, or says that the program found none")
    func verifierFiles() throws {
        let page = try Self.book().page()
        #expect(
            page.contains("on a host without verify-audit and recount-report, so the page cannot name their SHA-256"))
        let files = InstalledVerifier.names.map { ($0, AuditDigest.of(Array($0.utf8))) }
        let named = try Self.book().page(verifier: InstalledVerifier(folder: "/usr/share", files: files))
        for (name, digest) in files { #expect(named.contains("<td>\(name)</td><td><code>\(digest.hex)</code></td>")) }
        #expect(named.contains("a copy from this folder, proves nothing"))
    }

    @Test("says at the top that the audit record is not verified, and never claims compliance")
    func notProved() throws {
        let page = try Self.book().page()
        let verdict = try #require(page.range(of: "Not proved."))
        #expect(verdict.lowerBound < (try #require(page.range(of: "Per key and caller"))).lowerBound)
        #expect(!page.lowercased().contains("complian") && !page.contains("Intact."))
    }

    @Test("names who requested and approved an accepted restore, and both keys of a changed audit key")
    func whoAccepted() async throws {
        var book = RecordBook()
        let approval = try #require(ApprovalIdentifier(hex: "01020304"))
        try book.add(
            .approvalRequest(
                ApprovalRequest(
                    approval: approval, operation: .ledgerAcceptRestore, parameters: .zero, reason: nil,
                    expires: RecordBook.time(100))), at: 1, by: "alice")
        try book.add(.approvalDecision(approval: approval, decision: .approve, reason: nil), at: 2, by: "bob")
        try book.add(
            .ledgerAcceptRestore(
                LedgerRestore(
                    ledgerSequence: 7, hsmTokenSequence: 9, servedFrom: nil, reason: nil, approval: approval)), at: 2,
            by: "bob")
        let (from, to) = (AuditDigest.of([1]), AuditDigest.of([2]))
        try book.add(.auditKeyChange(from: nil, to: from, reason: nil, approval: nil), at: 2.5, hsmToken: "primary")
        try book.add(
            .auditKeyChange(from: from, to: to, reason: nil, approval: nil, isFormerKeyLost: true), at: 3, by: "root")
        try book.seal(at: 4)
        try book.seal(at: 5)
        try await book.expectRecounted()
        let page = try book.page()
        #expect(page.contains("bob; asked for by alice, approved by bob"))
        #expect(page.contains("<td>audit_key_change: \(to.base64.prefix(8))…</td>"))
        for (key, rest) in [
            (
                from,
                "<strong>replaced</strong> 2026-01-01 03:00:00, as it was lost</td><td>made in an HSM token, primary; in "
                    + "service from 2026-01-01 02:30:00, by the daemon <span class=\"place\">(node-1 4)</span></td><td>0</td>"
            ),
            (
                to,
                "<strong>in service</strong></td><td>made in an HSM token; in service from 2026-01-01 03:00:00, by root "
                    + "<span class=\"place\">(node-1 5)</span></td><td>0</td>"
            ),
            (
                .zero,
                "<strong>in service</strong></td><td>before these records</td><td>2, 2026-01-01 04:00:00 to 2026-01-01 "
                    + "05:00:00</td>"
            ),
        ] {
            // Its seals show the kind of a key.
            let kind = key == .zero ? " EC, 256" : ""
            #expect(
                page.contains(
                    "<code class=\"t\">\(key.base64.prefix(8))…</code>\(kind)<br><code>\(key.base64)</code><br><code>\(key.hex)"
                        + "</code></td><td><span class=\"t\">node-1</span></td><td>\(rest)"))
        }
    }

    @Test("attributes a suspension to its person alone, and the later approval to the step that it permitted")
    func suspendedAlone() throws {
        var book = RecordBook()
        let approval = try #require(ApprovalIdentifier(hex: "01020304"))
        try book.add(
            .keyStateChange(KeyStateChange(from: .active, to: .suspended, approval: approval)), at: 1, by: "alice",
            key: RecordBook.key)
        try book.add(
            .approvalRequest(
                ApprovalRequest(
                    approval: approval, operation: .keyCompromise, parameters: .zero, reason: nil,
                    expires: RecordBook.time(100))), at: 1, by: "alice", key: RecordBook.key)
        try book.add(.approvalDecision(approval: approval, decision: .approve, reason: nil), at: 2, by: "bob")
        try book.add(
            .keyStateChange(KeyStateChange(from: .suspended, to: .compromised, approval: approval)), at: 2, by: "bob",
            key: RecordBook.key)
        let page = try book.page()
        #expect(
            page.contains(
                "none for this act. Request for key_compromise: asked for by alice, approved by bob at 2026-01-01 02:00:00"
            ))
        #expect(page.contains("compromised, by bob; second person: asked for by alice, approved by bob; the last use "))
    }

    @Test("does not count the withdrawal of one's own request as a decision")
    func withdrawal() throws {
        var book = RecordBook()
        for (hour, decision) in [(1.0, ApprovalDecision.withdraw), (3, .reject)] {
            let approval = try #require(ApprovalIdentifier(hex: "0000000\(Int(hour))"))
            try book.add(
                .approvalRequest(
                    ApprovalRequest(
                        approval: approval, operation: .keyDestroy, parameters: .zero, reason: nil,
                        expires: RecordBook.time(100))), at: hour, by: "alice", key: RecordBook.key)
            try book.add(
                .approvalDecision(approval: approval, decision: decision, reason: nil), at: hour + 1,
                by: decision == .withdraw ? "alice" : "bob", key: RecordBook.key)
        }
        let people = try book.counted().acts.people
        #expect(people["alice"]?.decided.isEmpty == true && people["bob"]?.decided.count == 1)
    }

    @Test("says which requirements it does not support because records or the list of components are missing")
    func missingEvidence() throws {
        let page = try Self.book().page()
        for number in ["12.3.3", "12.3.4", "4.2.1.1", "3.6.1.2, 3.6.1.4, 3.7.3"] {
            #expect(page.contains("<strong>\(number)</strong></td><td>Not shown: "), "\(number)")
        }
        #expect(page.contains("<strong>6.3.2</strong></td><td>Not shown: it needs the packages&#39; lists"))
    }

    @Test("shows the same change of a setting on several nodes in one row, and a key's age at the period's end")
    func sameChange() throws {
        var book = RecordBook()
        for node in ["node-1", "node-2"] {
            for (hour, window) in [(1.0, "5m"), (20, "3m")] {
                var values = ConfigurationValues()
                values.set("verification.signing_time_window", ConfigurationValue(window))
                for event in values.events() { try book.add(event, on: node, at: hour) }
            }
        }
        try book.add(.keyImport(certificate: nil, approval: nil), at: 24, by: "alice", key: RecordBook.key)
        let page = try book.page(to: 24 * 31)
        #expect(page.contains("node-2</span></td><td><code class=\"t\">verification.signing_time_window</code></td>"))
        #expect(page.contains("2026-01-02 to the period&#39;s end, 30 days"))
    }

    @Test("lists the callers of each refusal reason, those with the most refusals first")
    func refusals() throws {
        var book = RecordBook()
        for (caller, count) in [("app", 2), ("web", 3), ("batch", 2)] {
            for _ in 0..<count {
                try book.add(
                    .decrypt(reference: nil), .refused(.transactionReplayed), at: 1, by: caller, key: RecordBook.key)
            }
        }
        #expect(try book.page().contains("web 3, app 2, batch 2"))
    }

    @Test("removes direction-changing characters that disguise one name as another")
    func directions() {
        #expect(PageTemplate.escaped("a\u{202E}b\u{200B}c\u{0007}") == "a\u{FFFD}b\u{FFFD}c\u{FFFD}")
    }

    @Test("reads access rules from recorded configuration values, including lists that continue under another name")
    func accessRules() {
        let access = AccessRules([
            "approvals.people": "2", "access.2.group": "staff", "access.2.gid": "50", "access.2.roles": "admin, audit",
            "access.2.merchants": "*", "access.1.name": "checkout", "access.1.user": "shop", "access.1.uid": "1001",
            "access.1.roles": "decrypt", "access.1.merchants": "merchant.a, merchant.b",
            "access.1.merchants.2": "merchant.c", "access.x.roles": "admin", "listener.mode": "0660",
            "access.2.wallets": "apple-pay, google-pay", "access.2.google_pay.merchants": "BCR2A",
            "access.2.google_pay.merchants.2": "BCR2B", "access.2.google_pay.auth_methods": "PAN_ONLY",
            "access.3.google_pay.merchants": "BCR2C", "access.3.google_pay.auth_methods": "CRYPTOGRAM_3DS",
        ])
        #expect(access.people == 2)
        #expect(
            access.rules == [
                .init(
                    place: 1, name: "checkout", peers: "user shop (uid 1001)", roles: ["decrypt"],
                    merchants: "merchant.a, merchant.b, merchant.c"),
                .init(
                    place: 2, name: nil, peers: "members of staff (gid 50)", roles: ["admin", "audit"],
                    merchants: "*; Google Pay: BCR2A, BCR2B (PAN_ONLY)"),
                .init(
                    place: 3, name: nil, peers: "everybody", roles: [],
                    merchants: "Google Pay: BCR2C (CRYPTOGRAM_3DS)"),
            ])
        #expect(!access.rules[1].alone(people: 2).contains("destroy"))
        #expect(access.rules[1].alone(people: 1).contains("destroy"))
        #expect(access.rules[0].alone(people: 2) == "open payment tokens of these merchants")
    }

    @Test("names a key that another ledger also has, and says so if no other ledger was compared")
    func otherLedgers() throws {
        var book = RecordBook()
        try book.add(.keyGenerate(), at: 1, by: "alice", key: RecordBook.key)
        let (both, none) = (
            OtherLedger(name: "test.json", keys: [RecordBook.key.base64, RecordBook.other.base64]),
            OtherLedger(name: "stage.json", keys: [RecordBook.other.base64])
        )
        #expect(try book.page().contains("nothing was compared"))
        let page = try book.page(others: [both, none])
        #expect(page.contains("<td>test.json</td><td class=\"n\">2</td><td>\(RecordBook.key.base64)</td>"))
        #expect(page.contains("<td>stage.json</td><td class=\"n\">1</td><td>none</td>"))
    }
}
