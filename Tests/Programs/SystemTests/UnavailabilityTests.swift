import Foundation
import GRDB
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The daemon's answers while the ledger or the HSM is unavailable, and its recovery without intervention.
@Suite struct UnavailabilityTests {
    @Test("releases nothing while it cannot write to the ledger, and serves the same request afterwards")
    func unwritableLedger() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let paymentToken = try SharedForge.paymentToken()
        // Another process, such as a failed backup, keeps a write transaction open.
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        configuration.busyMode = .timeout(10)
        let database = try DatabaseQueue(path: harness.directory.path("ledger.sqlite"), configuration: configuration)
        try await database.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        let answer = try await harness.decrypt(paymentToken, reference: "r")
        #expect(answer.status == 503 && answer.code == "ledger_unavailable", "\(answer)")
        #expect(answer.header("Retry-After").flatMap(Int.init) != nil)
        #expect(answer.member("paymentData") == nil)
        // A verification needs no ledger.
        #expect(try await harness.verify(paymentToken).status == 200)
        try await database.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try database.close()
        let served = try await harness.decrypt(paymentToken, reference: "r")
        #expect(served.status == 200, "\(served)")
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "fails with hsm_unavailable and is not ready while the HSM is away, and serves when it returns")
    func tokenAway() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let files = FileManager.default
        try files.moveItem(atPath: harness.directory.path("tokens"), toPath: harness.directory.path("away"))
        try harness.directory.makeDirectory("tokens")
        kill(try harness.worker(), SIGKILL)
        try await wait(for: "503 from /readyz") {
            try await Curl.request("/readyz", socket: harness.socket).status == 503
        }
        let answer = try await harness.decrypt(SharedForge.paymentToken())
        #expect(answer.status == 503 && answer.code == "hsm_unavailable", "\(answer)")
        #expect(answer.header("Retry-After").flatMap(Int.init) != nil)
        #expect(try await harness.verify(SharedForge.paymentToken()).status == 200)
        #expect(try await Curl.request("/healthz", socket: harness.socket).status == 200)
        try files.removeItem(atPath: harness.directory.path("tokens"))
        try files.moveItem(atPath: harness.directory.path("away"), toPath: harness.directory.path("tokens"))
        try await harness.waitUntilReady()
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.stop().status == 0)
    }

    @Test("fails with hsm_unavailable, not with an unknown key, for a recorded key before any HSM token is open")
    func tokenAwayAtStart() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        #expect(try await harness.stop().status == 0)
        let files = FileManager.default
        try files.moveItem(atPath: harness.directory.path("tokens"), toPath: harness.directory.path("away"))
        try harness.directory.makeDirectory("tokens")
        try await harness.start(untilReady: false)
        let paymentToken = try SharedForge.paymentToken()
        let answer = try await harness.decrypt(paymentToken, reference: "r")
        #expect(answer.status == 503 && answer.code == "hsm_unavailable", "\(answer)")
        #expect(answer.header("Retry-After").flatMap(Int.init) != nil)
        try files.removeItem(atPath: harness.directory.path("tokens"))
        try files.moveItem(atPath: harness.directory.path("away"), toPath: harness.directory.path("tokens"))
        try await harness.waitUntilReady()
        // Once the daemon is ready, it has read its keys, so the request succeeds.
        #expect(try await harness.decrypt(paymentToken, reference: "r").status == 200)
        #expect(try await harness.stop().status == 0)
    }

    @Test("is not ready and releases nothing if the ledger file is removed")
    func ledgerRemoved() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        try FileManager.default.removeItem(atPath: harness.directory.path("ledger.sqlite"))
        let answer = try await harness.decrypt(SharedForge.paymentToken())
        #expect(answer.status == 503 && answer.code == "ledger_unavailable", "\(answer)")
        try await wait(for: "503 from /readyz") {
            try await Curl.request("/readyz", socket: harness.socket).status == 503
        }
        #expect(try await harness.verify(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.stop().status == 0)
    }

    @Test("kills a hanging worker after call_timeout, and completes the call in the next worker")
    func workerHangs() async throws {
        var configuration = DaemonConfiguration()
        configuration.hsmToken = ["call_timeout: 3s"]
        let harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        let first = try harness.worker()
        try await stop(process: first)
        let began = ContinuousClock.now
        let answer = try await harness.decrypt(SharedForge.paymentToken(), reference: "r")
        #expect(answer.status == 200, "\(answer)")
        #expect(ContinuousClock.now - began > .milliseconds(2900))
        try await wait(for: "the hung worker's end") { kill(first, 0) != 0 }
        #expect(try await harness.stop().status == 0)
    }

    @Test("lists a key that is in the HSM but not in the ledger as external, and does not decrypt with it")
    func keyWithoutRecord() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.stop().status == 0)
        for file in try FileManager.default.contentsOfDirectory(atPath: harness.directory.path)
        where file.hasPrefix("ledger.sqlite") {
            try FileManager.default.removeItem(atPath: harness.directory.path(file))
        }
        try await harness.start(["--await-restore"], untilReady: false)
        try await wait(for: "the new ledger to be taken") {
            try await harness.paytokenctl(["ledger", "accept-restore", "--reason", "begun anew"]).status == 0
        }
        _ = try await harness.restoreFence()
        let answer = try await harness.decrypt(SharedForge.paymentToken())
        #expect(answer.status == 422 && answer.code == "key_not_active", "\(answer)")
        let list = try await harness.paytokenctl(["key", "list", "--output", "json"])
        let keys = try (JSONValue(parsing: list.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
        #expect(keys.map { $0["state"]?.stringValue } == ["pre-activation"])
        #expect(keys.map { $0["condition"]?.stringValue } == ["external"])
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "fails with hsm_unavailable for an active key that no HSM token has, and with key_not_active for others"
    )
    func missingKey() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.rsaMerchant])
        #expect(try await harness.stop().status == 0)
        let hash = Data(try SharedForge.ecMerchant.merchant.publicKeyHash)
        let known = try DatabaseQueue(path: harness.directory.path("ledger.sqlite"))
        try await known.write { db in
            try db.execute(
                sql: """
                    INSERT INTO merchant_key (public_key_hash, merchant_identifier, algorithm, state, origin,
                        created_at, node)
                    SELECT ?, 'merchant.com.example.missing', 'EC', 'active', origin, created_at, node
                    FROM merchant_key
                    """, arguments: [hash])
        }
        try known.close()
        for (state, status, code) in [
            ("active", 503, "hsm_unavailable"), ("compromised", 422, "key_not_active"),
            ("destroyed", 422, "key_not_active"),
        ] {
            let database = try DatabaseQueue(path: harness.directory.path("ledger.sqlite"))
            try await database.write {
                try $0.execute(
                    sql: "UPDATE merchant_key SET state = ? WHERE public_key_hash = ?", arguments: [state, hash])
            }
            try database.close()
            try await harness.start()
            let answer = try await harness.decrypt(SharedForge.paymentToken())
            #expect(answer.status == status && answer.code == code, "\(state): \(answer)")
            #expect(try await harness.stop().status == 0)
        }
    }
}
