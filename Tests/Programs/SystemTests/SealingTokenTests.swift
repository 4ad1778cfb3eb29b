import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The HSM token that seals the record: its choice, and its key if it does not sign with EC keys.
@Suite struct SealingTokenTests {
    private func ledger(_ harness: DaemonHarness) async throws -> JSONObject {
        try #require(try await harness.admin("/v1/status").member("ledger")?.objectValue)
    }

    /// Requires that the live record and an export are intact, according to both verifiers.
    private func expectIntact(_ harness: DaemonHarness) async throws {
        let live = try await harness.paytokenctl(["audit", "verify"])
        #expect(live.status == 0 && live.output.hasPrefix("intact"), "\(live)")
        let files = try FreshDirectory()
        let (export, keys) = (files.path("record.jsonl"), files.path("keys.pem"))
        #expect(try await harness.paytokenctl(["audit", "export", "--out", export]).status == 0)
        try files.write(try await harness.paytokenctl(["audit", "public-key"]).outputBytes, to: "keys.pem")
        let ours = try await harness.paytokenctl(["audit", "verify", "--export", export, "--public-key", keys])
        #expect(ours.status == 2 && ours.output.hasPrefix("intact"), "\(ours)")
        let theirs = try await Program.run(ProjectFiles.path("scripts/verify-audit"), [export, keys])
        #expect(theirs.status == 2 && theirs.output.hasPrefix("intact"), "\(theirs)")
    }

    @Test(
        "serves an HSM token that only knows RSA, and seals with it", .everyEngine,
        arguments: [
            (["0x1041"], "rsa_pss_rsae_sha256"), (["0x1041", "0xD", "0x43", "0x3"], "rsa_pkcs1_sha256"),
        ])
    func rsaOnly(refused: [String], algorithm: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        try hsmToken.play(
            ["refuse-mechanism C_GenerateKeyPair 0x1040", "fault C_DeriveKey always return=0x70"]
                + refused.map { "refuse-mechanism C_SignInit \($0)" })
        var configuration = DaemonConfiguration()
        configuration.hsmTokens = [TokenEntry("rsa", hsmToken)]
        let harness = try await DaemonHarness(configuration, merchants: [SharedForge.rsaMerchant])
        func decrypts() async throws -> Int {
            try await harness.decrypt(SharedForge.paymentToken(for: SharedForge.rsaMerchant.merchant)).status
        }
        #expect(try await decrypts() == 200)
        try await expectIntact(harness)
        let ledger = try await ledger(harness)
        #expect(ledger["sealingToken"]?.stringValue == "rsa")
        #expect(ledger["sealingAlgorithm"]?.stringValue == algorithm)
        let shown = try await harness.paytokenctl(["status"])
        #expect(shown.output.contains("rsa, \(algorithm)\n"), "\(shown)")
        // A change makes another key of the same type.
        #expect(try await harness.paytokenctl(["audit", "change-key", "--reason", "yearly"]).status == 0)
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        #expect(try await decrypts() == 200)
        try await expectIntact(harness)
        #expect(try await harness.stop().status == 0)
    }

    /// Two HSM tokens, one of which a test can take away.
    private final class TwoTokens: Sendable {
        let (first, second): (TokenDirectory, TokenDirectory)

        init() async throws { (first, second) = (try await TokenDirectory(), try await TokenDirectory()) }

        func configuration(_ names: [String]) -> DaemonConfiguration {
            var configuration = DaemonConfiguration()
            configuration.hsmTokens = names.map { TokenEntry($0, $0 == "first" ? first : second) }
            return configuration
        }

        func takeFirstAway() throws { try move("tokens", "away") }
        func putFirstBack() throws { try move("away", "tokens") }

        private func move(_ here: String, _ there: String) throws {
            try FileManager.default.moveItem(
                atPath: first.directory.path(here), toPath: first.directory.path(there))
        }

        /// The number of audit keys in an HSM token.
        func auditKeys(in hsmToken: TokenDirectory) async throws -> Int {
            let shown = try await Program.run(
                Program.installed("pkcs11-tool"),
                [
                    "--module", hsmToken.libraryPath, "--token-label", TokenDirectory.label, "--login", "--pin",
                    TokenDirectory.pin, "--list-objects", "--type", "privkey",
                ], environment: hsmToken.environment)
            #expect(shown.status == 0, "\(shown)")
            return shown.output.components(separatedBy: "paytokend audit").count - 1
        }
    }

    @Test("waits for the HSM token that seals while it is away, and names it, whatever the configuration's order")
    func firstAway() async throws {
        let hsmTokens = try await TwoTokens()
        func waits(_ harness: DaemonHarness) async throws {
            try await wait(for: "the second token to serve and the first to be missed") {
                let shown = try await harness.admin("/v1/status").member("tokens")?.arrayValue ?? []
                let conditions = shown.compactMap { $0.objectValue?["condition"]?.stringValue }
                return Set(conditions) == ["ready", "unavailable"]
            }
            let ready = try await harness.admin("/readyz")
            #expect(ready.status == 503 && ready.text.contains("the HSM token first, which seals"), "\(ready)")
            #expect(try await ledger(harness)["sealingToken"]?.stringValue == "first")
            #expect(try await hsmTokens.auditKeys(in: hsmTokens.second) == 0)
        }
        // The choice is made for a new ledger already, although the HSM token is away.
        try hsmTokens.takeFirstAway()
        let harness = try await DaemonHarness(prepared: hsmTokens.configuration(["first", "second"]))
        try await harness.start(untilReady: false)
        try await waits(harness)
        try hsmTokens.putFirstBack()
        try await harness.waitUntilReady()
        #expect(try await harness.stop().status == 0)

        try harness.configure(hsmTokens.configuration(["second", "first"]))
        try await harness.start()
        try await expectIntact(harness)
        #expect(try await ledger(harness)["sealingToken"]?.stringValue == "first")
        #expect(try await harness.stop().status == 0)

        try hsmTokens.takeFirstAway()
        try await harness.start(untilReady: false)
        try await waits(harness)
        try hsmTokens.putFirstBack()
        try await harness.waitUntilReady()
        #expect(try await hsmTokens.auditKeys(in: hsmTokens.first) == 1)
        #expect(try await harness.stop().status == 0)
    }

    @Test("has another HSM token seal by the command that changes the audit key, also after a restart")
    func moved() async throws {
        let hsmTokens = try await TwoTokens()
        let harness = try await DaemonHarness(hsmTokens.configuration(["first", "second"]))
        func change(_ name: String) async throws -> ProgramResult {
            try await harness.paytokenctl(["audit", "change-key", "--token", name, "--reason", "moved"])
        }
        #expect(try await change("third").status == 1)
        let changed = try await change("second")
        #expect(changed.status == 0, "\(changed)")
        #expect(try await ledger(harness)["sealingToken"]?.stringValue == "second")
        try await expectIntact(harness)
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        #expect(try await ledger(harness)["sealingToken"]?.stringValue == "second")
        try await expectIntact(harness)
        #expect(try await harness.stop().status == 0)
        // Without that HSM token, the daemon does not go back to the other one.
        try harness.configure(hsmTokens.configuration(["first"]))
        try await harness.start(["--await-restore"], untilReady: false)
        try await wait(for: "the comparison") {
            try await harness.admin("/readyz").text.contains("under the name")
        }
        #expect(try await hsmTokens.auditKeys(in: hsmTokens.first) == 1)
        #expect(try await harness.stop().status == 0)
    }

    @Test("has another HSM token seal after the one that sealed was lost; verifiers need its public key", .everyEngine)
    func lost() async throws {
        let hsmTokens = try await TwoTokens()
        let harness = try await DaemonHarness(prepared: hsmTokens.configuration(["first", "second"]))
        try await harness.start()
        let files = harness.directory
        func lose() async throws -> ProgramResult {
            try await harness.paytokenctl([
                "audit", "change-key", "--lost", "--token", "second", "--reason", "burnt",
            ])
        }
        // Only payment tokens that were signed before the fence are refused then.
        func waitForFence() async throws {
            try await wait(for: "the fence to be all that is in the way") {
                let answer = try await harness.admin("/readyz")
                return answer.text.contains("\"transaction_replayed\"") && !answer.text.contains("ledger_unavailable")
            }
        }
        try files.write(try await harness.paytokenctl(["audit", "public-key"]).outputBytes, to: "old.pem")
        let present = try await lose()
        #expect(present.status == 1 && present.error.contains("the HSM token first answers and has it"), "\(present)")
        #expect(try await harness.stop().status == 0)

        try hsmTokens.takeFirstAway()
        try await harness.start(untilReady: false)
        try await wait(for: "the second token to serve") {
            let shown = try await harness.admin("/v1/status").member("tokens")?.arrayValue ?? []
            return shown.compactMap { $0.objectValue?["condition"]?.stringValue } == ["unavailable", "ready"]
        }
        let changed = try await lose()
        #expect(changed.status == 0 && changed.error.contains("does not vouch for the new one"), "\(changed)")
        try await waitForFence()
        #expect(try await ledger(harness)["sealingToken"]?.stringValue == "second")
        try await expectIntact(harness)
        #expect(try await harness.stop().status == 0)
        // The former HSM token seals nothing when it comes back.
        try hsmTokens.putFirstBack()
        try await harness.start(untilReady: false)
        try await waitForFence()
        #expect(try await ledger(harness)["sealingToken"]?.stringValue == "second")

        let out = files.path("report.html")
        #expect(try await harness.paytokenctl(["audit", "report", "--out", out]).status == 0)
        let (export, keys, old) = (files.path("report.jsonl"), files.path("report.pem"), files.path("old.pem"))
        let lines = try String(contentsOfFile: export, encoding: .utf8).split(separator: "\n").map { line in
            try #require(try JSONValue(parsing: Array(line.utf8)).objectValue)
        }
        let change = try #require(lines.last { $0["event"]?.stringValue == "audit_key_change" })
        #expect(change["formerKey"]?.stringValue == "lost" && change["token"]?.stringValue == "second")
        let sealed = lines.compactMap { $0["checkpoint"]?.objectValue }
            .filter { $0["keyId"]?.stringValue == change["from"]?.stringValue }
            .compactMap { $0["sequence"]?.numberValue?.int }.max()
        let end = "not signed by a given key: no given key vouches from record \(try #require(sealed) + 1) on\n"
        var verdicts: [String] = []
        for verifier in [
            (try Program.built("paytokenctl"), ["audit", "verify", "--export", export, "--public-key", old]),
            (ProjectFiles.path("scripts/verify-audit"), [export, old]),
        ] {
            let verdict = try await Program.run(verifier.0, verifier.1)
            #expect(verdict.status == 1 && verdict.output.hasSuffix(end), "\(verdict)")
            verdicts.append(verdict.output)
        }
        #expect(Set(verdicts).count == 1)
        let newKey = try #require(change["to"]?.stringValue)
        let named =
            "; nothing here shows that the key before vouches for the key \(newKey), which seals from record "
            + "\(try #require(sealed) + 1) on\n"
        for verifier in [
            (try Program.built("paytokenctl"), ["audit", "verify", "--export", export, "--public-key", keys]),
            (ProjectFiles.path("scripts/verify-audit"), [export, keys]),
        ] {
            let verdict = try await Program.run(verifier.0, verifier.1)
            #expect(verdict.status == 2 && verdict.output.hasPrefix("intact"), "\(verdict)")
            #expect(verdict.output.hasSuffix(named), "\(verdict)")
        }
        let live = try await harness.paytokenctl(["audit", "verify", "--output", "json"])
        let node = try JSONValue(parsing: live.outputBytes).objectValue?["nodes"]?.arrayValue?.first?.objectValue
        let unendorsed = node?["unendorsedKeys"]?.arrayValue?.compactMap { $0.objectValue?["keyId"]?.stringValue }
        #expect(live.status == 0 && unendorsed == [newKey], "\(live)")
        let recounted = try await Program.run(
            ProjectFiles.path("scripts/verify-audit"), ["--report", out, export, keys])
        #expect(recounted.output.contains(" facts that are counted are those of the export"), "\(recounted)")
        let page = try String(contentsOfFile: out, encoding: .utf8)
        #expect(page.contains("\"kind\":\"audit_key_lost\""))
        #expect(try await harness.stop().status == 0)
    }
}
