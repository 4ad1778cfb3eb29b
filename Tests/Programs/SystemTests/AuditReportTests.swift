import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The HTML report that `paytokenctl audit report` writes for an assessor from a running daemon.
@Suite struct AuditReportTests {
    private static let verifier = ProjectFiles.path("scripts/verify-audit")

    @Test("writes the page, the export and the key, and reports an intact audit record with the events")
    func reportOfRunningDaemon() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken).status == 200)
        #expect(try await harness.decrypt(paymentToken).code == "transaction_replayed")
        let out = harness.directory.path("report.html")
        let list = try await harness.paytokenctl(["key", "list", "--output", "json"])
        let keys = try harness.directory.write(list.output, to: "test-keys.json")
        try await wait(for: "the key's attributes") {
            try await harness.paytokenctl(["audit", "list", "--limit", "1000"]).output.contains("key_attributes")
        }
        let made = try await harness.paytokenctl([
            "audit", "report", "--out", out, "--output", "json", "--other-keys", keys,
        ])
        #expect(made.status == 0, "\(made)")
        let answer = try JSONValue(parsing: made.outputBytes).objectValue
        #expect(answer?["verdict"]?.stringValue == "intact")
        let page = try String(contentsOfFile: out, encoding: .utf8)
        #expect(page.contains("<strong>Intact.</strong>") && page.contains("transaction_replayed"))
        #expect(page.contains("SoftHSM project, SoftHSM v2"), "the HSM token's model, as it describes itself")
        // The columns of the report for an imported key are algorithm and bits, sensitive, extractable, always sensitive,
        // never extractable and local.
        #expect(
            page.contains("; sensitive yes, extractable no, always sensitive no, never extractable no, local no,"))
        #expect(page.contains("Origin: from a file") && !page.contains("<strong>Warnings: "))
        #expect(page.contains("tokens.primary.pin_digest"), "the age of the PIN")
        let merchant = try SharedForge.ecMerchant.merchant.identifier
        #expect(page.contains(merchant), "the key that was imported")
        let hash = try #require(
            try JSONValue(parsing: list.outputBytes).arrayValue?.first?.objectValue?["publicKeyHash"]?.stringValue)
        #expect(page.contains("<td>test-keys.json</td><td class=\"n\">1</td><td>\(hash)</td>"))
        let digest = try #require(answer?["sha256"]?.stringValue)
        #expect(page.contains(digest))
        #expect(
            try await Program.run("/usr/bin/sha256sum", [harness.directory.path("report.jsonl")]).output.hasPrefix(
                digest))
        // The report contains no secret of the payment token.
        for secret in ["onlinePaymentCryptogram", "applicationPrimaryAccountNumber"] { #expect(!page.contains(secret)) }
        for name in ["report.html", "report.jsonl"] {
            let mode = try FileManager.default.attributesOfItem(atPath: harness.directory.path(name))
            #expect(mode[.posixPermissions] as? Int == 0o600, "\(name)")
        }
        // This is the command that the report prints for verifying its export.
        let verified = try await Program.run(
            Self.verifier,
            [harness.directory.path("report.jsonl"), harness.directory.path("report.pem")])
        #expect(verified.status == 2 && verified.output.hasPrefix("intact: "), "\(verified)")

        // A report that is made from the export alone states that it was made without a daemon.
        let second = harness.directory.path("second.html")
        let again = try await Program.run(
            Program.built("paytokenctl"),
            [
                "audit", "report", "--export", harness.directory.path("report.jsonl"), "--public-key",
                harness.directory.path("report.pem"), "--out", second, "--verifier", ProjectFiles.path("scripts"),
            ])
        #expect(again.status == 0, "\(again)")
        let offline = try String(contentsOfFile: second, encoding: .utf8)
        #expect(offline.contains("No daemon was asked"))
        let script = try await Program.run("/usr/bin/sha256sum", [Self.verifier]).output.prefix(64)
        #expect(offline.contains("<td>verify-audit</td><td><code>\(script)</code></td>"))
        // The command refuses to overwrite the report.
        let taken = try await harness.paytokenctl(["audit", "report", "--out", out])
        #expect(taken.status != 0 && taken.error.contains("report.html"), "\(taken)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("shows in list and report that an HSM token does not store the audit record's end")
    func headMemoryLost() async throws {
        // The attribute is CKA_APPLICATION, which only data objects have.
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "refuse-attribute C_CreateObject 0x10")
        var configuration = DaemonConfiguration()
        configuration.hsmTokens = [TokenEntry("primary", hsmToken)]
        let harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        let listed = try await harness.paytokenctl(["audit", "list", "--limit", "1000", "--output", "json"])
        let events = try (JSONValue(parsing: listed.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
            .filter { $0["event"]?.stringValue == "head_memory_lost" }
        #expect(events.count == 1 && events.first?["token"]?.stringValue == "primary", "\(listed)")
        #expect(listed.output.contains("C_CreateObject: CKR_ATTRIBUTE_VALUE_INVALID"), "\(listed)")
        let out = harness.directory.path("report.html")
        let made = try await harness.paytokenctl(["audit", "report", "--out", out])
        #expect(made.status == 0, "\(made)")
        let page = try String(contentsOfFile: out, encoding: .utf8)
        #expect(page.contains("did not store the record&#39;s newest end after 1 start"))
        let recounted = try await Program.run(
            Self.verifier,
            ["--report", out, harness.directory.path("report.jsonl"), harness.directory.path("report.pem")])
        #expect(recounted.output.contains(" are those of the export"), "\(recounted)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("writes a page that reports a changed audit record, and exits with 1")
    func reportOfChangedRecord() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        let export = harness.directory.path("record.jsonl")
        #expect(try await harness.paytokenctl(["audit", "export", "--out", export]).status == 0)
        let key = try await harness.paytokenctl(["audit", "public-key"])
        let keyFile = try harness.directory.write(key.output, to: "key.pem")
        #expect(try await harness.stop().status == 0)
        let text = try String(contentsOfFile: export, encoding: .utf8)
        let changed = text.replacing(#""event":"decrypt""#, with: #""event":"verify""#)
        #expect(changed != text)
        let file = try harness.directory.write(changed, to: "changed.jsonl")
        let out = harness.directory.path("changed.html")
        let result = try await Program.run(
            Program.built("paytokenctl"),
            ["audit", "report", "--export", file, "--public-key", keyFile, "--out", out])
        #expect(result.status == 1 && result.error.hasPrefix("chain_unproved: "), "\(result)")
        let page = try String(contentsOfFile: out, encoding: .utf8)
        #expect(page.contains("Not proved.") && !page.contains("<strong>Intact.</strong>"))
    }

    @Test("refuses wrong options before it asks the daemon or writes a file")
    func wrongOptions() async throws {
        let directory = try FreshDirectory()
        for arguments in [
            ["--export", "x.jsonl"], ["--public-key", "k.pem"], ["--export", "-", "--public-key", "k.pem"],
            ["--since", "2026-02-01", "--until", "2026-01-01"],
        ] {
            let result = try await Program.run(
                Program.built("paytokenctl"), ["audit", "report", "--out", directory.path("page.html")] + arguments)
            #expect(result.status == 64, "\(arguments): \(result)")
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path).isEmpty)
    }
}
