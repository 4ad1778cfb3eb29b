import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// A host whose ledger is restored from a copy. The host must not release payment tokens again that it released after
/// the copy.
@Suite struct RestoreTests {
    private func restore(
        _ copy: String, to harness: DaemonHarness, _ more: [String] = []
    ) async throws -> ProgramResult {
        try await harness.paytokenctl(
            ["ledger", "restore", copy, "--to", "sqlite:" + harness.directory.path("ledger.sqlite")] + more)
    }

    /// Starts the daemon with the restored ledger. Requires that it releases nothing until the acceptance, and
    /// afterwards refuses `released`.
    private func acceptAndRefuse(_ released: MintedToken, on harness: DaemonHarness) async throws {
        let refused = try await Program.run(
            Program.built("paytokend"), ["--config", harness.configurationFile],
            environment: ["STATE_DIRECTORY": harness.directory.path])
        #expect(refused.status == 78 && refused.error.contains("accept-restore"), "\(refused)")
        try await harness.start(["--await-restore"], untilReady: false)
        try await wait(for: "the finding") {
            try await Curl.request("/readyz", socket: harness.socket).body.holds(Array("accept-restore".utf8))
        }
        let held = try await harness.decrypt(released)
        #expect(held.status == 503 && held.code == "ledger_unavailable", "\(held)")
        let accepted = try await harness.paytokenctl(["ledger", "accept-restore", "--reason", "disk lost"])
        #expect(accepted.status == 0, "\(accepted)")
        let fence = try await harness.restoreFence()
        #expect(try await harness.decrypt(released).code == "transaction_replayed")
        #expect(try await harness.decrypt(harness.paymentToken(signedAt: fence)).status == 200)
        #expect(try await harness.decrypt(released).code == "transaction_replayed")
        #expect(try await harness.paytokenctl(["audit", "verify"]).status == 0)
        #expect(try await harness.stop().status == 0)
        // The acceptance remains in effect after a restart.
        try await harness.start(untilReady: false)
        #expect(try await harness.restoreFence() == fence)
        #expect(try await harness.decrypt(released).code == "transaction_replayed")
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "refuses a payment token released after the copy, even on a host whose HSM token is as old as the copy",
        arguments: [false, true])
    func noSecondRelease(onAnotherHost: Bool) async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        #expect(try await harness.stop().status == 0)
        // The older HSM token remembers no record that is missing from the copy. With this HSM token, the daemon
        // therefore cannot detect that the ledger is an older copy.
        let (tokens, early) = (harness.directory.path("tokens"), harness.directory.path("early-tokens"))
        try FileManager.default.copyItem(atPath: tokens, toPath: early)
        try await harness.start()
        let copy = harness.directory.path("backup.sqlite")
        #expect(try await harness.paytokenctl(["ledger", "backup", copy]).status == 0)
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken).status == 200)
        // A restore is refused while the daemon runs.
        let inUse = try await restore(copy, to: harness)
        #expect(inUse.status == 75 && inUse.error.contains("Another process uses the ledger"), "\(inUse)")
        #expect(try await harness.stop().status == 0)

        let host: DaemonHarness
        if onAnotherHost {
            host = try await DaemonHarness(prepared: DaemonConfiguration(), initializesToken: false)
            try FileManager.default.removeItem(atPath: host.directory.path("tokens"))
            try FileManager.default.copyItem(atPath: early, toPath: host.directory.path("tokens"))
        } else {
            host = harness
        }
        let restored = try await restore(copy, to: host, ["--output", "json"])
        #expect(restored.status == 0 && restored.error.contains("Nothing is released from it"), "\(restored)")
        let report = try #require(try JSONValue(parsing: restored.outputBytes).objectValue)
        #expect(report["status"]?.stringValue == "restored")
        #expect(report["claims"]?.numberValue?.int == 0)
        let aside = report["setAside"]?.stringValue
        #expect((aside == nil) == onAnotherHost)
        if let aside { #expect(FileManager.default.fileExists(atPath: aside)) }
        let mode = try FileManager.default.attributesOfItem(atPath: host.directory.path("ledger.sqlite"))
        #expect(mode[.posixPermissions] as? Int == 0o600)
        try await acceptAndRefuse(paymentToken, on: host)
    }

    @Test(
        "refuses a damaged, changed or invalid copy, keeps the ledger, and changes nothing in a dry run")
    func refusedCopies() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken).status == 200)
        let copy = harness.directory.path("backup.sqlite")
        #expect(try await harness.paytokenctl(["ledger", "backup", copy]).status == 0)
        #expect(try await harness.stop().status == 0)
        let ledger = harness.directory.path("ledger.sqlite")
        let before = try Data(contentsOf: URL(filePath: ledger))
        let whole = try Data(contentsOf: URL(filePath: copy))
        // With "Decrypt" instead of "decrypt", the line no longer matches its audit checkpoint.
        var changed = whole
        let place = try #require(changed.range(of: Data(#""event":"decrypt""#.utf8)))
        changed[place.lowerBound + 9] = UInt8(ascii: "D")
        let pages = whole.prefix(whole.count / 2)
        for (name, bytes, words) in [
            ("changed", changed, "was changed"), ("cut", Data(pages), "was not restored"),
            ("none", Data("no ledger".utf8), "not a ledger"), ("empty", Data(), "not a ledger"),
        ] {
            let path = try harness.directory.write(Array(bytes), to: name)
            let result = try await restore(path, to: harness)
            #expect(result.status == 1 && result.error.contains(words), "\(name): \(result)")
        }
        let absent = try await restore(harness.directory.path("absent"), to: harness)
        #expect(absent.status == 66, "\(absent)")
        let dry = try await restore(copy, to: harness, ["--dry-run"])
        #expect(dry.status == 0 && dry.error.contains("Nothing was changed"), "\(dry)")
        #expect(try Data(contentsOf: URL(filePath: ledger)) == before)
        let names = try FileManager.default.contentsOfDirectory(atPath: harness.directory.path)
        #expect(!names.contains { $0.contains("restor") && $0.hasPrefix("ledger") }, "\(names)")
        try await harness.start()
        #expect(try await harness.decrypt(paymentToken).code == "transaction_replayed")
        #expect(try await harness.stop().status == 0)
    }

    @Test("holds a ledger that was replaced with a backup by cp, even if the HSM token is as old as the backup")
    func copiedByHand() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        #expect(try await harness.stop().status == 0)
        let (tokens, early) = (harness.directory.path("tokens"), harness.directory.path("early-tokens"))
        try FileManager.default.copyItem(atPath: tokens, toPath: early)
        try await harness.start()
        let copy = harness.directory.path("backup.sqlite")
        #expect(try await harness.paytokenctl(["ledger", "backup", copy]).status == 0)
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken).status == 200)
        #expect(try await harness.stop().status == 0)
        for name in ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "tokens"] {
            try? FileManager.default.removeItem(atPath: harness.directory.path(name))
        }
        try FileManager.default.copyItem(atPath: copy, toPath: harness.directory.path("ledger.sqlite"))
        try FileManager.default.copyItem(atPath: early, toPath: tokens)
        try await acceptAndRefuse(paymentToken, on: harness)
    }

    @Test("restores a copy with the SHA-256 that the backup printed, and refuses another SHA-256")
    func byDigest() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let copy = harness.directory.path("backup.sqlite")
        let made = try await harness.paytokenctl(["ledger", "backup", copy, "--output", "json"])
        let printed = try #require(try JSONValue(parsing: made.outputBytes).objectValue?["sha256"]?.stringValue)
        #expect(try await harness.stop().status == 0)
        let another = String(printed.reversed())
        let refused = try await restore(copy, to: harness, ["--sha256", another])
        #expect(refused.status == 1 && refused.error.contains("SHA-256"), "\(refused)")
        #expect(try await restore(copy, to: harness, ["--sha256", "no"]).status == 64)
        let restored = try await restore(copy, to: harness, ["--sha256", printed])
        #expect(restored.status == 0, "\(restored)")
    }
}
