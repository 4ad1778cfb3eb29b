import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Two hosts that share one ledger. Each host has an HSM token.
struct TwoNodes {
    let database: DaemonDatabase
    let first: DaemonHarness
    let second: DaemonHarness

    init() async throws {
        database = try await DaemonDatabase()
        first = try await DaemonHarness(Self.configuration("node-1", database), merchants: [SharedForge.ecMerchant])
        second = try await DaemonHarness(Self.configuration("node-2", database), merchants: [SharedForge.ecMerchant])
    }

    private static func configuration(_ node: String, _ database: DaemonDatabase) -> DaemonConfiguration {
        var configuration = DaemonConfiguration()
        configuration.database = database
        configuration.ledger = ["node: \(node)"]
        return configuration
    }

    /// Waits until the first node's audit record trusts `count` keys of the second node.
    func waitForPin(_ count: Int = 1) async throws {
        try await wait(for: "the pin") { try await events(of: first).count { $0 == "audit_key_pinned" } == count }
    }

    /// Returns the events in the audit record of a daemon's node, oldest first.
    func events(of daemon: DaemonHarness) async throws -> [String] {
        try await records(daemon).reversed().compactMap { $0.string("event") }
    }

    func records(_ daemon: DaemonHarness, _ arguments: [String] = []) async throws -> [JSONValue] {
        let listed = try await daemon.paytokenctl(
            ["audit", "list", "--limit", "1000", "--output", "json"] + arguments)
        try #require(listed.status == 0, "\(listed)")
        return try JSONValue(parsing: listed.outputBytes).arrayValue ?? []
    }

    /// Returns `NODE=FILE` with a node's public keys, which its daemon provides.
    func givenKey(_ daemon: DaemonHarness, _ node: String) async throws -> String {
        let shown = try await daemon.paytokenctl(["audit", "public-key"])
        try #require(shown.status == 0, "\(shown)")
        return "\(node)="
            + (try first.directory.write(shown.outputBytes, to: "\(node)-\(UInt32.random(in: 0 ... .max)).pem"))
    }

    /// Returns the verdict on an export of all nodes with the keys that the first node trusts. Requires that
    /// `paytokenctl audit verify` and `scripts/verify-audit` agree.
    func verdictOfExport(_ key: String, _ arguments: [String] = []) async throws -> ProgramResult {
        let export = first.directory.path("all-\(UInt32.random(in: 0 ... .max)).jsonl")
        let exported = try await first.paytokenctl(["audit", "export", "--node", "all", "--out", export])
        try #require(exported.status == 0, "\(exported)")
        let ours = try await first.paytokenctl(
            ["audit", "verify", "--export", export, "--public-key", key, "--node", "all", "--pinned-by", "node-1"]
                + arguments)
        let theirs = try await Program.run(
            Self.script, [export, key, "--node", "all", "--pinned-by", "node-1"] + arguments)
        #expect(theirs.output == ours.output && theirs.status == ours.status, "\(theirs) \(ours)")
        return theirs
    }

    static let script = ProjectFiles.path("scripts/verify-audit")
}

/// Access of one host to the audit record of the other.
@Suite struct NodesRecordTests {
    @Test("writes a report page about all hosts, whose totals are verified with the key next to the page")
    func report() async throws {
        let nodes = try await TwoNodes()
        let (first, second) = (nodes.first, nodes.second)
        for daemon in [first, second] {
            #expect(try await daemon.decrypt(SharedForge.paymentToken()).status == 200)
        }
        try await nodes.waitForPin()
        // The verification makes the second node seal its record.
        #expect(try await second.paytokenctl(["audit", "verify"]).status == 0)
        let out = first.directory.path("report.html")
        let made = try await first.paytokenctl(["audit", "report", "--out", out])
        #expect(made.status == 0, "\(made)")
        let page = try String(contentsOfFile: out, encoding: .utf8)
        #expect(page.contains("nodes node-1, node-2") && page.contains("key pinned by node node-1"))
        let files = ["report.jsonl", "report.pem"].map(first.directory.path)
        let counted = try await Program.run(
            TwoNodes.script, ["--report", out, files[0], "node-1=\(files[1])", "--pinned-by", "node-1"])
        #expect(counted.status == 2 && counted.output.contains(" are those of the export"), "\(counted)")
        for daemon in [first, second] { #expect(try await daemon.stop().status == 0) }
    }

    @Test(
        "lists, exports and verifies the records of both nodes on either host"
    )
    func allNodes() async throws {
        let nodes = try await TwoNodes()
        let (first, second) = (nodes.first, nodes.second)
        let released = try await second.decrypt(SharedForge.paymentToken())
        #expect(released.status == 200)
        let transaction = try #require(released.member("transactionId")?.stringValue)
        #expect(try await first.decrypt(SharedForge.paymentToken()).status == 200)
        try await nodes.waitForPin()
        // The verification makes the second node seal its record.
        #expect(try await second.paytokenctl(["audit", "verify"]).status == 0)

        let verified = try await first.paytokenctl(["audit", "verify", "--node", "all"])
        let lines = verified.output.split(separator: "\n")
        #expect(verified.status == 0 && lines.count == 2, "\(verified)")
        #expect(lines[0].hasPrefix("intact: node node-1, records 1 to "), "\(verified)")
        #expect(lines[0].hasSuffix(", own key, as the daemon says"), "\(verified)")
        #expect(lines[1].hasPrefix("intact: node node-2, records 1 to "), "\(verified)")
        #expect(lines[1].contains(", key pinned by node node-1"), "\(verified)")
        let given = try await first.paytokenctl([
            "audit", "verify", "--node", "node-2", "--public-key", nodes.givenKey(second, "node-2"), "--output", "json",
        ])
        let json = try JSONValue(parsing: given.outputBytes)
        #expect(given.status == 0 && json.string("verdict") == "intact", "\(given)")
        let found = try #require(json.objectValue?["nodes"]?.arrayValue)
        #expect(found.map { $0.string("node") } == ["node-2"] && found[0].string("key") == "given", "\(given)")
        let wrong = try await first.paytokenctl([
            "audit", "verify", "--node", "node-2", "--public-key", nodes.givenKey(first, "node-2"),
        ])
        #expect(wrong.status == 1 && wrong.output.contains("not signed by a given key"), "\(wrong)")

        // Every host shows which node recorded a release.
        let elsewhere = try await nodes.records(first, ["--node", "node-2", "--transaction", transaction])
        #expect(elsewhere.map { $0.string("node") } == ["node-2"])
        #expect(try await nodes.records(first, ["--transaction", transaction]).isEmpty)
        let merged = try await nodes.records(first, ["--node", "all"])
        #expect(Set(merged.compactMap { $0.string("node") }) == ["node-1", "node-2"])
        let times = merged.compactMap { $0.string("time") }
        #expect(times == times.sorted(by: >))

        let file = first.directory.path("two.jsonl")
        let exported = try await first.paytokenctl([
            "audit", "export", "--node", "node-2", "--out", file, "--output", "json",
        ])
        #expect(exported.status == 0 && exported.error.contains("ends here with its last checkpoint"), "\(exported)")
        let report = try JSONValue(parsing: exported.outputBytes).objectValue?["nodes"]?.arrayValue?.first
        #expect(report?.string("node") == "node-2" && report?.objectValue?["sealed"]?.numberValue != nil, "\(exported)")

        let whole = try await nodes.verdictOfExport(nodes.givenKey(first, "node-1"))
        #expect(whole.status == 2 && whole.output.contains("key pinned by node node-1"), "\(whole)")
        // The second node's record also trusts the first node's key.
        let other = try await second.paytokenctl(["audit", "verify", "--node", "all"])
        #expect(other.status == 0 && other.output.contains("key pinned by node node-2"), "\(other)")
        for daemon in [first, second] { #expect(try await daemon.stop().status == 0) }
    }

    @Test("lists each record of all nodes once over pages, filters them, and writes them as CSV")
    func pagesFiltersAndCSV() async throws {
        let nodes = try await TwoNodes()
        let first = nodes.first
        for daemon in [first, nodes.second] {
            #expect(try await daemon.decrypt(SharedForge.paymentToken()).status == 200)
        }
        try await nodes.waitForPin()
        #expect(try await nodes.second.stop().status == 0)
        for order in ["newest", "oldest"] {
            var seen: [String] = []
            var cursor = ""
            repeat {
                let page = try await first.admin("/v1/audit/records?node=all&limit=3&order=\(order)\(cursor)")
                #expect(page.status == 200, "\(page)")
                let items = page.member("items")?.arrayValue ?? []
                seen += items.map { ($0.string("node") ?? "") + " " + ($0.sequence ?? "") }
                // Each request adds a record. Pages from oldest to newest would therefore never end, so the loop
                // stops after 60 records.
                guard let next = page.member("next")?.stringValue, seen.count < 60 else { break }
                cursor = "&cursor=" + next.replacing(":", with: "%3A").replacing(",", with: "%2C")
            } while true
            #expect(seen.count == Set(seen).count, "\(seen)")
            #expect(
                seen.contains("node-1 1") && seen.contains("node-2 1") || order == "oldest" && seen.count >= 60,
                "\(seen)")
        }
        let selected = try await first.paytokenctl(["audit", "export", "--node", "all", "--outcome", "ok"])
        #expect(selected.status == 0, "\(selected)")
        let verified = try await first.paytokenctl([
            "audit", "verify", "--export", first.directory.write(selected.outputBytes, to: "ok.jsonl"), "--node", "all",
            "--public-key", nodes.givenKey(first, "node-1"),
        ])
        #expect(verified.status == 1 && verified.output.hasPrefix("filtered: "), "\(verified)")
        let table = try await first.paytokenctl(["audit", "export", "--node", "all", "--format", "csv"])
        let rows = table.output.split(separator: "\r\n")
        #expect(rows.count { $0.hasPrefix("node,sequence,") } == 1, "\(table)")
        #expect(rows.contains { $0.hasPrefix("node-1,1,") } && rows.contains { $0.hasPrefix("node-2,1,") })
        let keys = try await first.paytokenctl(["audit", "public-key", "--node", "all"])
        #expect(keys.output.contains("# node node-1\n") && keys.output.contains("# node node-2\n"), "\(keys)")
        #expect(keys.error.contains("Node node-2's key comes from the ledger"), "\(keys)")
        for command in [["list"], ["export"], ["public-key"], ["verify"]] {
            let unknown = try await first.paytokenctl(["audit"] + command + ["--node", "node-3"])
            #expect(unknown.status == 1 && unknown.error.contains("node-1, node-2"), "\(unknown)")
        }
        #expect(try await first.stop().status == 0)
    }

    @Test(
        "keeps the newest heads of all nodes on one host, and verifies that each continues the previous one"
    )
    func heads() async throws {
        let nodes = try await TwoNodes()
        let first = nodes.first
        for daemon in [first, nodes.second] {
            #expect(try await daemon.decrypt(SharedForge.paymentToken()).status == 200)
            #expect(try await daemon.paytokenctl(["audit", "head"]).status == 0)
        }
        let heads = first.directory.path("heads")
        try FileManager.default.createDirectory(atPath: heads, withIntermediateDirectories: true)
        let keep = ["audit", "head", "--node", "all", "--directory", heads]
        for count in [2, 4] {
            let kept = try await first.paytokenctl(keep)
            #expect(kept.status == 0, "\(kept)")
            #expect(kept.output.contains("node node-1, record ") && kept.output.contains("node node-2, record "))
            #expect(kept.output.contains("intact from record") == (count == 4), "\(kept)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: heads).count == count)
            // The second node makes another head. In the next pass of the loop, the first node's command finds that
            // head.
            #expect(try await nodes.second.paytokenctl(["audit", "head"]).status == 0)
        }
        let own = try await nodes.second.paytokenctl(["audit", "head", "--node", "node-1"])
        #expect(own.status == 0 && own.output.hasPrefix(#"{"checkpoint":{"node":"node-1","#), "\(own)")
        for daemon in [first, nodes.second] { #expect(try await daemon.stop().status == 0) }
    }

    @Test("accepts the only node of a ledger file by its name, and refuses other names")
    func ledgerFile() async throws {
        let harness = try await DaemonHarness()
        let status = try await harness.paytokenctl(["status", "--output", "json"])
        let node = try #require(try JSONValue(parsing: status.outputBytes).string("node"))
        for name in [node, "all"] {
            let verified = try await harness.paytokenctl(["audit", "verify", "--node", name])
            #expect(verified.status == 0 && verified.output.hasPrefix("intact: node \(node), "), "\(verified)")
            let listed = try await harness.paytokenctl(["audit", "list", "--node", name])
            #expect(listed.status == 0, "\(listed)")
        }
        let refused = try await harness.paytokenctl(["audit", "list", "--node", "elsewhere"])
        #expect(refused.status == 1 && refused.error.contains("no node of that name"), "\(refused)")
        #expect(refused.error.contains("it has \(node)"), "\(refused)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("trusts another node's new audit key because the old one vouches for it")
    func newAuditKey() async throws {
        let nodes = try await TwoNodes()
        try await nodes.waitForPin()
        let changed = try await nodes.second.paytokenctl(["audit", "change-key", "--reason", "yearly"])
        #expect(changed.status == 0, "\(changed)")
        try await nodes.waitForPin(2)
        let pin = try #require(try await nodes.records(nodes.first).first { $0.string("event") == "audit_key_pinned" })
        #expect(pin.string("ofNode") == "node-2" && pin.string("vouchedBy") != nil, "\(pin)")
        let verified = try await nodes.first.paytokenctl(["audit", "verify", "--node", "node-2"])
        #expect(verified.status == 0 && verified.output.contains("key pinned by node node-1"), "\(verified)")
        #expect(try await nodes.verdictOfExport(nodes.givenKey(nodes.first, "node-1")).status == 2)
        // After a restart, the daemon finds the trusted keys in its record, and adds none.
        #expect(try await nodes.first.stop().status == 0)
        try await nodes.first.start()
        #expect(try await nodes.second.stop().status == 0)
        try await nodes.second.start()
        let again = try await nodes.first.paytokenctl(["audit", "verify", "--node", "all"])
        #expect(again.status == 0, "\(again)")
        #expect(try await nodes.events(of: nodes.first).count { $0 == "audit_key_pinned" } == 2)
        for daemon in [nodes.first, nodes.second] { #expect(try await daemon.stop().status == 0) }
    }
}
