import Foundation
import GRDB
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// A ledger that was changed while the clock was ahead. The daemon reports that it is not ready, until two people
/// accept the clock.
@Suite(.enabled(Staff.needsRoot) { try await Staff.canAct() })
struct WrongClockTests {
    /// Changes the ledger like a daemon that pruned claims while its clock was ahead.
    private func forget(before time: Date, in harness: DaemonHarness) async throws {
        let database = try DatabaseQueue(path: harness.directory.path("ledger.sqlite"))
        try await database.write { db in
            try db.execute(
                sql: "INSERT INTO ledger_meta VALUES ('forgotten_before', ?)",
                arguments: [String(Int64(time.timeIntervalSince1970) * 1000)])
        }
        try database.close()
    }

    private func paymentToken(signed: Date) throws -> MintedToken {
        try SharedForge.mint.mint(TokenRecipe(merchant: SharedForge.ecMerchant.merchant, signingTime: signed))
    }

    @Test(
        "refuses all payment tokens as replays after a wrong clock until two people accept the clock"
    )
    func acceptedClock() async throws {
        let daemon = try await StaffedDaemon(merchants: [SharedForge.ecMerchant])
        let harness = daemon.harness
        let earlier = try paymentToken(signed: Date())
        #expect(try await harness.decrypt(earlier, reference: "order-1").status == 200)
        #expect(try await harness.stop().status == 0)
        try await forget(before: Date(timeIntervalSinceNow: 300 * 86_400), in: harness)
        try await harness.start(untilReady: false)
        // Until the HSM token is open, its absence is another reason for which the daemon is not ready.
        try await wait(for: "the clock alone to be the reason") {
            let reasons = try await Curl.request("/readyz", socket: harness.socket).member("reasons")?.arrayValue
            return reasons?.count == 1 && reasons?.first?.string("component") == "clock"
                && reasons?.first?.string("code") == "transaction_replayed"
        }
        let refused = try await harness.decrypt(paymentToken(signed: Date()))
        #expect(refused.code == "transaction_replayed", "\(refused)")
        #expect(refused.string("details")?.contains("this host's clock") == true, "\(refused)")
        let status = try await harness.paytokenctl(["status"])
        #expect(status.status == 1 && status.error.contains("See: paytokenctl help ledger accept-clock\n"), "\(status)")
        let behind = try await harness.metric("paytokend_clock_behind_ledger_seconds").first
        #expect(try #require(behind) > 299 * 86_400)

        let words = ["ledger", "accept-clock", "--reason", "clock was ahead after boot"]
        let dry = try await harness.paytokenctl(words + ["--dry-run"], as: Staff.alice.identity)
        #expect(dry.status == 0 && dry.output.contains("unchanged"), "\(dry)")
        let monitor = try await harness.paytokenctl(words, as: Staff.carol.identity)
        #expect(monitor.status == 77, "\(monitor)")
        let approval = try await daemon.ask(.alice, "ledger", "accept-clock", "--reason", "clock was ahead after boot")
        #expect(try await daemon.approval(approval)?.string("operation") == "ledger_accept_clock")
        let alone = try await daemon.run(.alice, "approval", "approve", approval)
        #expect(alone.status == 1 && alone.error.contains("a second person must"), "\(alone)")
        #expect(try await harness.decrypt(paymentToken(signed: Date())).code == "transaction_replayed")
        let approved = try await daemon.run(.bob, "approval", "approve", approval)
        #expect(approved.status == 0, "\(approved)")

        let list = try await harness.paytokenctl(["audit", "list", "--limit", "50", "--output", "json"])
        let record = try (JSONValue(parsing: list.outputBytes).arrayValue ?? []).first {
            $0.string("event") == "ledger_accept_clock" && $0.string("outcome") == "ok"
        }
        #expect(record?.string("approval") == approval)
        let written = try #require(record?.string("servedFrom"))
        // The fence has whole seconds, but the record contains milliseconds.
        let fence = try Date(written.prefix(19) + "Z", strategy: .iso8601)
        // A payment token signed before the fence may have been released, and its claim may be pruned.
        let doubtful = try await harness.decrypt(paymentToken(signed: fence - 1))
        #expect(doubtful.code == "transaction_replayed", "\(doubtful)")
        // A payment token that was signed at the fence is accepted within about a second, since the fence is rounded
        // up to whole seconds.
        let fresh = try paymentToken(signed: fence)
        try await wait(for: "the first token to be served") { try await harness.decrypt(fresh).status == 200 }
        #expect(try await harness.decrypt(fresh).code == "transaction_replayed")
        // For a claim that was not pruned, the daemon still refuses replays and permits repeats.
        #expect(try await harness.decrypt(earlier).code == "transaction_replayed")
        let again = try await harness.decrypt(earlier, reference: "order-1")
        #expect(again.status == 200 && again.member("repeated")?.boolValue == true, "\(again)")
        // The daemon refuses a second acceptance, because there is nothing left to accept.
        let second = try await harness.paytokenctl(words)
        #expect(second.status == 1 && second.error.hasPrefix("invalid_state"), "\(second)")
        #expect(try await daemon.isIntact())
        #expect(try await harness.stop().status == 0)
    }
}
