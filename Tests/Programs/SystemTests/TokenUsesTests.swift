import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// An HSM token that logs the uses of its keys, and a daemon that provides this log.
@Suite struct TokenUsesTests {
    private static let verifier = ProjectFiles.path("scripts/verify-audit")

    private struct Setup {
        let directory: FreshDirectory
        let hsmToken: ScriptedToken
        let harness: DaemonHarness
        var uses: String { directory.path("uses") }

        /// - Parameter command: returns the script that `use_log` runs, for the path of the HSM token's log.
        init(timeout: String = "5s", _ command: (_ uses: String) -> String) async throws {
            directory = try FreshDirectory()
            hsmToken = try ScriptedToken(try await TokenDirectory())
            try hsmToken.play("uses \(directory.path("uses"))")
            let program = try directory.write("#!/bin/sh\n" + command(directory.path("uses")), to: "token-uses")
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: program)
            var configuration = DaemonConfiguration()
            configuration.hsmTokens = [
                TokenEntry("primary", hsmToken, ["use_log: [\(program)]", "use_log_timeout: \(timeout)"])
            ]
            harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        }

        var logged: [String] {
            get throws { try String(contentsOfFile: uses, encoding: .utf8).split(separator: "\n").map(String.init) }
        }

        /// Uses the merchant's key without the daemon, as any holder of the PIN can.
        func useDirectly(_ count: Int) async throws {
            let list = try await harness.paytokenctl(["key", "list", "--output", "json"])
            let hash = try #require(
                try JSONValue(parsing: list.outputBytes).arrayValue?.first?.objectValue?["publicKeyHash"]?.stringValue)
            let identifier = try #require(Data(base64Encoded: hash)).map { String(format: "%02x", $0) }.joined()
            let openssl = try Program.installed("openssl")
            let (key, peer) = (directory.path("peer.pem"), directory.path("peer.der"))
            let made = try await Program.run(
                openssl, ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key])
            #expect(made.status == 0, "\(made)")
            #expect(
                try await Program.run(openssl, ["pkey", "-in", key, "-pubout", "-outform", "DER", "-out", peer]).status
                    == 0)
            let pin = try String(contentsOfFile: hsmToken.pinFile, encoding: .utf8)
            for _ in 0..<count {
                let derived = try await Program.run(
                    Program.installed("pkcs11-tool"),
                    [
                        "--module", hsmToken.libraryPath, "--token-label", TokenDirectory.label, "--login", "--pin",
                        pin.trimmingCharacters(in: .whitespacesAndNewlines), "--derive", "--mechanism", "ECDH1-DERIVE",
                        "--id", identifier, "--input-file", peer, "--output-file", directory.path("secret"),
                    ], environment: hsmToken.environment)
                #expect(derived.status == 0, "\(derived)")
            }
        }

        func report() async throws -> ProgramResult {
            try await harness.paytokenctl([
                "audit", "report", "--out", harness.directory.path("report.html"), "--output", "json",
            ])
        }
    }

    /// Returns a command that prints the log of the requested period in the required format.
    private static func printing(_ uses: String) -> String {
        #"""
        printf '{"format":"paytokend-token-uses","version":1,"kind":"log","since":"%s","until":"%s","node":"%s","token":"%s"}\n' \
            "$PAYTOKEND_SINCE" "$PAYTOKEND_UNTIL" "$PAYTOKEND_NODE" "$PAYTOKEND_TOKEN"
        awk -v since="$PAYTOKEND_SINCE" -v until="$PAYTOKEND_UNTIL" '
            substr($0, 10, 24) >= since && substr($0, 10, 24) < until { print; count++ }
            END { printf "{\"end\":%d}\n", count }' '\#(uses)'
        """# + "\n"
    }

    @Test("reports exactly the uses that bypassed the daemon")
    func usesOutsideDaemon() async throws {
        let setup = try await Setup(Self.printing)
        for _ in 0..<5 { #expect(try await setup.harness.decrypt(SharedForge.paymentToken()).status == 200) }
        let logged = try setup.logged
        let before = logged.count
        let clean = try await setup.report()
        #expect(clean.status == 0, "\(clean)")
        let answer = try JSONValue(parsing: clean.outputBytes).objectValue
        #expect(answer?["usesInNoRecord"]?.numberValue?.int == 0, "\(logged)")
        for name in ["report.html", "report.jsonl", "report.pem", "report.uses-primary.jsonl"] {
            try FileManager.default.removeItem(atPath: setup.harness.directory.path(name))
        }

        try await setup.useDirectly(7)
        #expect(try setup.logged.count == before + 7)
        let found = try await setup.report()
        #expect(found.status == 0, "\(found)")
        // The record accounts for 7 uses: the 5 releases, and up to 2 uses for the import of the key.
        let unexplained = before + 7 - (5 + 2)
        let again = try JSONValue(parsing: found.outputBytes).objectValue
        #expect(again?["usesInNoRecord"]?.numberValue?.int == unexplained)
        let page = try String(contentsOfFile: setup.harness.directory.path("report.html"), encoding: .utf8)
        let verdict =
            "\(unexplained) uses of keys in no record: at most 0 explained by lost records or a wrong clock, at least \(unexplained) unexplained."
        #expect(page.contains("<strong>\(verdict)</strong>"))
        let verified = try await Program.run(
            Self.verifier,
            [
                "--report", setup.harness.directory.path("report.html"), setup.harness.directory.path("report.jsonl"),
                setup.harness.directory.path("report.pem"), "--token-uses",
                setup.harness.directory.path("report.uses-primary.jsonl"),
            ])
        #expect(verified.status == 2 && verified.output.hasSuffix(" and of the HSM tokens' logs\n"), "\(verified)")
        // Both requests for the log are recorded with the HSM token and the requested period.
        let list = try await setup.harness.paytokenctl(["audit", "list", "--limit", "1000", "--output", "json"])
        let looks = (try JSONValue(parsing: list.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
            .filter { $0["event"]?.stringValue == "audit_token_uses" }
        #expect(looks.count == 2)
        for look in looks {
            #expect(look["outcome"]?.stringValue == "ok" && look["token"]?.stringValue == "primary")
            #expect(look["since"]?.stringValue != nil && look["until"]?.stringValue != nil)
        }
        let strange = try await setup.harness.admin("/v1/tokens/none/uses?since=2026-01-01T00:00:00Z")
        #expect(strange.status == 404)
        #expect(try await setup.harness.stop().status == 0)
    }

    @Test(
        "makes no page if the command fails, hangs, ends early or prints something else, and still decrypts",
        arguments: [
            ("echo broken >&2; exit 3", "ended with status 3: broken"), ("sleep 600", "did not end within"),
            (#"printf '{"format":"paytokend-token-uses","version":1'; exit 0"#, ""), ("echo hello", ""), ("exit 0", ""),
            (
                #"printf '{"format":"paytokend-token-uses","version":1,"kind":"log","since":"2026-01-01T00:00:00Z","until":"2027-01-01T00:00:00Z"}\n'"#,
                ""
            ),
        ])
    func failingCommand(command: String, logged: String) async throws {
        let setup = try await Setup { _ in command + "\n" }
        let made = try await setup.report()
        #expect(made.status != 0, "\(made)")
        #expect(!FileManager.default.fileExists(atPath: setup.harness.directory.path("report.html")))
        #expect(try await setup.harness.decrypt(SharedForge.paymentToken()).status == 200)
        let ended = try await setup.harness.stop()
        #expect(ended.status == 0)
        #expect(logged.isEmpty || ended.error.contains(logged), "\(ended.error)")
    }

    @Test("ends the command when its caller disconnects, and refuses a second command at the same time")
    func callerDisconnects() async throws {
        let setup = try await Setup(timeout: "1h") { "echo $$ >> '\($0).pids'; echo line; exec sleep 600\n" }
        let (harness, pids) = (setup.harness, setup.uses + ".pids")
        let descriptors = "/proc/\(try harness.daemon.processIdentifier)/fd"
        func open() throws -> Int { try FileManager.default.contentsOfDirectory(atPath: descriptors).count }
        func processes() throws -> [Substring] {
            try String(contentsOfFile: pids, encoding: .utf8).split(separator: "\n")
        }
        let target = "/v1/tokens/primary/uses?since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00Z"
        #expect(try await harness.admin("/v1/tokens/none/uses").status == 404)
        let before = try open()
        for round in 1...3 {
            let connection = try await RawConnection(harness.adminSocket)
            try await connection.send("GET \(target) HTTP/1.1\r\nHost: d\r\n\r\n")
            try await wait(for: "the command's first line") { connection.text.contains("line") }
            let answers = try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<10 {
                    group.addTask {
                        let answer = try await harness.admin(target)
                        return "\(answer.status) \(answer.code ?? "")"
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(answers == Array(repeating: "503 overloaded", count: 10))
            await connection.close()
            #expect(try processes().count == round)
            try await wait(for: "the command to be gone") {
                try processes().allSatisfy { !FileManager.default.fileExists(atPath: "/proc/\($0)") }
            }
        }
        try await wait(for: "all of its descriptors to be closed") { try open() <= before }
        #expect(try await harness.stop().status == 0)
    }

    @Test("answers a request for the uses of an HSM token without a use_log with 404")
    func noUseLog() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let answer = try await harness.admin(
            "/v1/tokens/primary/uses?since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00Z")
        #expect(answer.status == 404 && answer.code == "not_found")
        #expect(try await harness.stop().status == 0)
    }
}
