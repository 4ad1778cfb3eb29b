import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Facts that an export alone must contain: about keys, about HSM tokens, and about the person who changed the
/// configuration.
@Suite struct RecordedFactsTests {
    private func records(_ harness: DaemonHarness, _ event: String) async throws -> [JSONObject] {
        let listed = try await harness.paytokenctl(["audit", "list", "--limit", "1000", "--output", "json"])
        return try (JSONValue(parsing: listed.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
            .filter { $0["event"]?.stringValue == event }.reversed()
    }

    @Test("records what an HSM token reports about itself and its keys, once however often the daemon starts")
    func attributes() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        try await wait(for: "the key's attributes") { try await records(harness, "key_attributes").count == 1 }
        let key = try #require(try await records(harness, "key_attributes").first)
        #expect(key["publicKeyHash"] == (try await records(harness, "key_import")).first?["publicKeyHash"])
        #expect(key["caller"] == nil && key["token"]?.stringValue == "primary")
        let values = try #require(key["keys"]?.arrayValue?.first?.objectValue)
        #expect(values["algorithm"]?.stringValue == "EC" && values["bits"]?.numberValue?.int == 256)
        #expect(values["sensitive"]?.boolValue == true && values["extractable"]?.boolValue == false)
        #expect(values["local"]?.boolValue == false && values["neverExtractable"]?.boolValue == false)
        let hsmToken = try #require(try await records(harness, "token_attributes").first)
        #expect(hsmToken["model"]?.stringValue == "SoftHSM v2" && hsmToken["tierECv1"]?.stringValue == "C")
        #expect(hsmToken["tierECv2"]?.stringValue == "C")

        // The key that is generated after a restart is read after the index has it, and so after the other key.
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        let made = try await harness.paytokenctl([
            "key", "generate", "--merchant-identifier", "merchant.com.example.new",
        ])
        #expect(made.status == 0, "\(made)")
        try await wait(for: "the new key's attributes") { try await records(harness, "key_attributes").count == 2 }
        let generated = try await records(harness, "key_attributes").last?["keys"]?.arrayValue?.first?.objectValue
        #expect(generated?["local"]?.boolValue == true && generated?["neverExtractable"]?.boolValue == true)
        #expect(try await records(harness, "token_attributes").count == 1)
        #expect(try await harness.stop().status == 0)
    }

    @Test("records algorithm, size, origin and certificate with the events that bring keys and certificates")
    func facts() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.rsaMerchant])
        let imported = try #require(try await records(harness, "key_import").first)
        #expect(imported["algorithm"]?.stringValue == "RSA" && imported["bits"]?.numberValue?.int == 2048)
        #expect(imported["origin"]?.stringValue == "imported")
        #expect(imported["issuer"]?.stringValue?.contains("CN=") == true)
        let end = try #require(imported["certificateEnd"]?.stringValue)
        let shown = try await harness.paytokenctl(["key", "list", "--output", "json"])
        let notAfter = try JSONValue(parsing: shown.outputBytes).arrayValue?.first?.string("notAfter")
        #expect(notAfter.map { end.hasPrefix($0.dropLast()) } == true, "\(end) \(notAfter ?? "")")
        let made = try await harness.paytokenctl([
            "key", "generate", "--merchant-identifier", "merchant.com.example.new", "--type", "ec",
        ])
        #expect(made.status == 0, "\(made)")
        let generated = try #require(try await records(harness, "key_generate").first)
        #expect(generated["algorithm"]?.stringValue == "EC" && generated["bits"]?.numberValue?.int == 256)
        #expect(generated["origin"]?.stringValue == "generated" && generated["certificateEnd"] == nil)
        let hash = try SharedForge.rsaMerchant.hex
        let retired = try await harness.paytokenctl(["key", "retire", hash, "--cut-off", "1d", "--reason", "rotated"])
        #expect(retired.status == 0, "\(retired)")
        let cutOff = try await records(harness, "key_state_change").last?["cutOff"]?.stringValue
        #expect(cutOff?.hasSuffix("Z") == true, "\(retired)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("records the page that audit report made, with its SHA-256 and the last record of the export")
    func report() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let out = harness.directory.path("report.html")
        let made = try await harness.paytokenctl(["audit", "report", "--out", out, "--output", "json"])
        #expect(made.status == 0, "\(made)")
        let reports = try await records(harness, "audit_report")
        let report = try #require(reports.first)
        let sum = try await Program.run("/usr/bin/sha256sum", [out]).output.prefix(64)
        #expect(report["pageSha256"]?.stringValue == String(sum) && reports.count == 1)
        let audit = try JSONValue(parsing: made.outputBytes).objectValue?["audit"]?.objectValue
        #expect(audit?["sequence"] == report["sequence"])
        #expect(report["caller"]?.objectValue?["uid"]?.numberValue?.int == Int(geteuid()))
        let lines = try String(contentsOfFile: harness.directory.path("report.jsonl"), encoding: .utf8)
            .split(separator: "\n").filter { $0.hasPrefix(#"{"node":"#) }
        let last = try JSONValue(parsing: Array(try #require(lines.last).utf8)).objectValue
        let node = try #require(last?["node"]?.stringValue)
        #expect(report["lastSequences"]?.objectValue?[node] == last?["sequence"])
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "reloads at the request of an administrator only, records the person, and shows the problems of a wrong file",
        .enabled(if: PeerIdentity.available, "only root can connect as other accounts"))
    func reload() async throws {
        let daemon = try await StaffedDaemon()
        let harness = daemon.harness
        #expect(try await daemon.run(.carol, "reload").status == 77)
        try harness.configure(Staff.configuration(["{ name: night, user: \"12345\", roles: [decrypt] }"]))
        let tried = try await daemon.run(.alice, "reload", "--dry-run")
        #expect(tried.status == 0 && tried.output.contains("access.1.name"), "\(tried)")
        #expect(try await records(harness, "configuration_reload").isEmpty)
        let done = try await daemon.run(.alice, "reload", "--output", "json")
        #expect(done.status == 0, "\(done)")
        let answer = try JSONValue(parsing: done.outputBytes).objectValue
        #expect(answer?["status"]?.stringValue == "reloaded")
        let reloaded = try await records(harness, "configuration_reload")
        #expect(reloaded.count == 1 && reloaded[0]["outcome"]?.stringValue == "ok")
        #expect(reloaded[0]["caller"]?.objectValue?["name"]?.stringValue == "alice")
        #expect(try harness.daemon.error.contains("configuration reloaded"))

        try harness.configure(Staff.configuration(["{ user: \"12345\", roles: [decrypt], colour: blue }"]))
        let wrong = try await daemon.run(.bob, "reload")
        #expect(wrong.status == 1 && wrong.error.contains("invalid_state"), "\(wrong)")
        #expect(wrong.error.contains("colour"), "\(wrong)")
        let refused = try #require(try await records(harness, "configuration_reload").last)
        #expect(refused["outcome"]?.stringValue == "invalid_state" && refused["fileSha256"] == nil)
        #expect(refused["caller"]?.objectValue?["name"]?.stringValue == "bob")
        // The former rules are still in force.
        #expect(try await daemon.run(.alice, "approval", "list").status == 0)
        #expect(try await harness.stop().status == 0)
    }
}
