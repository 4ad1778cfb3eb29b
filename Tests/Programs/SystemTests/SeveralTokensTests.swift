import Foundation
import GRDB
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The daemon with two HSM tokens on SoftHSM, each with its own directory and worker.
@Suite struct SeveralTokensTests {
    private static let names = ["primary", "second"]

    private func harness(merchants: [ForgedMerchant] = []) async throws -> DaemonHarness {
        var configuration = DaemonConfiguration()
        configuration.furtherHSMTokens = ["second"]
        configuration.listener = ["max_connections: 512", "max_connections_per_uid: 512"]
        let harness = try await DaemonHarness(configuration, merchants: [])
        try await wait(for: "both tokens to be open") {
            try await self.status(harness).hsmTokens.allSatisfy { $0["condition"]?.stringValue == "ready" }
        }
        for merchant in merchants {
            let result = try await harness.importMerchant(merchant, Self.names.flatMap { ["--token", $0] })
            try #require(result.status == 0, "\(result)")
        }
        return harness
    }

    private struct Status {
        let ready: Bool
        let hsmTokens: [JSONObject]
        let warnings: [String]
        let reasons: [String]
    }

    private func status(_ harness: DaemonHarness) async throws -> Status {
        let answer = try await harness.admin("/v1/status")
        return Status(
            ready: answer.member("ready")?.boolValue == true,
            hsmTokens: answer.member("tokens")?.arrayValue?.compactMap(\.objectValue) ?? [],
            warnings: answer.member("warnings")?.arrayValue?.compactMap(\.stringValue) ?? [],
            reasons: answer.member("reasons")?.arrayValue?.compactMap {
                $0.objectValue?["component"]?.stringValue
            } ?? [])
    }

    private func paymentToken(_ merchant: ForgedMerchant? = nil) throws -> MintedToken {
        try SharedForge.paymentToken(for: (merchant ?? SharedForge.ecMerchant).merchant)
    }

    /// Returns the number of releases with each HSM token, according to the audit record.
    private func recordedTokens(_ harness: DaemonHarness) async throws -> [String: Int] {
        let database = try DatabaseQueue(path: harness.directory.path("ledger.sqlite"))
        defer { try? database.close() }
        let lines = try await database.read { try Data.fetchAll($0, sql: "SELECT line FROM audit_record") }
        var counts: [String: Int] = [:]
        for line in lines {
            guard let record = try JSONValue(parsing: Array(line)).objectValue,
                record["event"]?.stringValue == "decrypt",
                let hsmToken = record["token"]?.stringValue
            else { continue }
            counts[hsmToken, default: 0] += 1
        }
        return counts
    }

    /// Moves an HSM token's directory away or back, and kills the workers, because a library that has already read
    /// the keys may not notice the move. Returns when the daemon has noticed their end: it repeats a call only once, so a
    /// call to one dead worker and then to the other would fail.
    private func move(_ hsmToken: String, away: Bool, _ harness: DaemonHarness) async throws {
        let (here, there) = (harness.directory.path(DaemonHarness.store(of: hsmToken)), harness.directory.path("away"))
        try FileManager.default.moveItem(atPath: away ? here : there, toPath: away ? there : here)
        guard away else { return }
        let killed = Set(try harness.workers())
        for worker in killed { kill(worker, SIGKILL) }
        try await wait(for: "the daemon to notice the workers' end") { killed.isDisjoint(with: try harness.workers()) }
    }

    @Test("imports a key into both HSM tokens, loses no request to killed workers, and records the HSM token used")
    func killedUnderLoad() async throws {
        let harness = try await harness(merchants: [SharedForge.ecMerchant])
        let status = try await status(harness)
        #expect(status.hsmTokens.compactMap { $0["keys"]?.numberValue?.int } == [1, 1])
        #expect(!status.warnings.contains { $0.contains("Only HSM token") }, "\(status.warnings)")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<4 {
                group.addTask {
                    for round in 1...25 {
                        let paymentToken = try self.paymentToken()
                        let answer = try await harness.decrypt(paymentToken, reference: "r")
                        #expect(answer.status == 200, "\(answer)")
                        // One of the callers kills a worker four times, while the others continue.
                        guard caller == 0, round % 6 == 0 else { continue }
                        // The daemon repeats a call only once, so both HSM tokens must be ready before a kill.
                        try await wait(for: "both tokens to serve") {
                            try await self.status(harness).hsmTokens.allSatisfy {
                                $0["condition"]?.stringValue == "ready"
                            }
                        }
                        if let worker = try harness.workers().randomElement() { kill(worker, SIGKILL) }
                    }
                }
            }
            try await group.waitForAll()
        }
        let counts = try await recordedTokens(harness)
        #expect(counts.values.reduce(0, +) == 100)
        for name in Self.names { #expect(counts[name, default: 0] > 0, "\(counts)") }
        #expect(try await harness.stop().status == 0)
    }

    @Test("stays ready while one of two HSM tokens is away, reports it, and uses that HSM token again later")
    func oneAway() async throws {
        let harness = try await harness(merchants: [SharedForge.ecMerchant])
        try await move("second", away: true, harness)
        try await wait(for: "the token to be missed") {
            #expect(try await harness.decrypt(paymentToken()).status == 200)
            return try await status(harness).hsmTokens[1]["condition"]?.stringValue == "unavailable"
        }
        let without = try await status(harness)
        #expect(without.ready && without.reasons.isEmpty)
        #expect(without.warnings.contains { $0.contains("HSM token second serves no key") }, "\(without.warnings)")
        #expect(try await Curl.request("/readyz", socket: harness.socket).status == 200)
        #expect(try await harness.paytokenctl(["status"]).status == 0)
        try await move("second", away: false, harness)
        try await wait(for: "the token to be back") {
            try await status(harness).hsmTokens[1]["condition"]?.stringValue == "ready"
        }
        let before = try await recordedTokens(harness)["second", default: 0]
        for _ in 0..<6 { #expect(try await harness.decrypt(paymentToken()).status == 200) }
        #expect(try await recordedTokens(harness)["second", default: 0] > before)
        #expect(try await status(harness).warnings.allSatisfy { !$0.contains("token second") })
        #expect(try await harness.stop().status == 0)
    }

    @Test("warns about a key in only one HSM token, and is not ready while that HSM token is away")
    func soleHolder() async throws {
        let harness = try await harness(merchants: [SharedForge.ecMerchant])
        let alone = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.alone"))
        #expect(try await harness.importMerchant(alone, ["--token", "second"]).status == 0)
        let before = try await status(harness)
        #expect(before.ready)
        #expect(before.warnings.contains { $0.contains("Only HSM token second") }, "\(before.warnings)")
        #expect(try await harness.decrypt(paymentToken(alone)).status == 200)

        try await move("second", away: true, harness)
        try await wait(for: "the token to be missed") {
            _ = try await harness.decrypt(paymentToken(alone))
            // Both workers were killed, so the test waits until the other HSM token is ready again.
            let conditions = try await status(harness).hsmTokens.compactMap { $0["condition"]?.stringValue }
            return conditions == ["ready", "unavailable"]
        }
        let without = try await status(harness)
        #expect(!without.ready && without.reasons == ["token second"], "\(without)")
        let refused = try await harness.decrypt(paymentToken(alone))
        #expect(refused.status == 503 && refused.code == "hsm_unavailable", "\(refused)")
        #expect(try await harness.decrypt(paymentToken()).status == 200)
        // An import that names the absent HSM token also changes nothing in the other one.
        let late = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.late"))
        let result = try await harness.importMerchant(late, Self.names.flatMap { ["--token", $0] })
        #expect(result.status == 75 && result.error.contains("the HSM token second is unavailable"), "\(result)")
        #expect(try await harness.decrypt(paymentToken(late)).code == "unknown_public_key_hash")

        try await move("second", away: false, harness)
        try await harness.waitUntilReady()
        #expect(try await harness.decrypt(paymentToken(alone)).status == 200)
        // A repeated import into both HSM tokens adds the missing key.
        #expect(try await harness.importMerchant(alone, Self.names.flatMap { ["--token", $0] }).status == 0)
        #expect(try await status(harness).warnings.allSatisfy { !$0.contains("Only HSM token") })
        #expect(try await harness.stop().status == 0)
    }

    @Test("stores a certificate in every HSM token that holds its key")
    func certificateInEveryToken() async throws {
        let harness = try await harness(merchants: [SharedForge.ecMerchant])
        let merchant = try SharedForge.ecMerchant
        let files = try FreshDirectory()
        try merchant.write(to: files.url, prefix: "m")
        let result = try await harness.paytokenctl(["certificate", "import", files.path("m.pem"), "--output", "json"])
        #expect(result.status == 0, "\(result)")
        let key = try JSONValue(parsing: result.outputBytes).objectValue
        #expect(key?["tokens"]?.arrayValue?.compactMap(\.stringValue) == Self.names)
        #expect(key?["tier"]?.stringValue == "C")
        #expect(try await harness.stop().status == 0)
    }
}
