import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Two hosts that share one ledger. Administration on one host takes effect on both.
@Suite(.enabled(Staff.needsRoot) { try await Staff.canAct() })
struct SeveralHostsTests {
    private let database: DaemonDatabase
    private let first: StaffedDaemon
    private let second: StaffedDaemon

    init() async throws {
        database = try await DaemonDatabase()
        first = try await StaffedDaemon(Self.configuration(database, "host-1"))
        // On the second host, alice has another uid, which has no account.
        second = try await StaffedDaemon(
            Self.configuration(database, "host-2", ["{ name: alice, user: \"21003\", roles: [admin, audit] }"]))
    }

    private static func configuration(
        _ database: DaemonDatabase, _ node: String, _ rules: [String] = []
    ) -> DaemonConfiguration {
        var configuration = Staff.configuration(rules)
        configuration.database = database
        configuration.ledger = ["node: \(node)"]
        return configuration
    }

    /// Imports a key into both hosts' HSM tokens.
    private func merchant(_ name: String) async throws -> ForgedMerchant {
        let merchant = try await first.merchant(name)
        let imported = try await second.harness.importMerchant(merchant)
        try #require(imported.status == 0, "\(imported)")
        return merchant
    }

    private func shown(_ merchant: ForgedMerchant, by daemon: StaffedDaemon) async throws -> JSONValue {
        let shown = try await daemon.run(nil, "key", "show", merchant.hex, "--output", "json")
        return try JSONValue(parsing: shown.outputBytes)
    }

    private func nodes(_ merchant: ForgedMerchant, by daemon: StaffedDaemon) async throws -> [String]? {
        try await shown(merchant, by: daemon).objectValue?["nodes"]?.arrayValue?.compactMap(\.stringValue)
    }

    private func stop() async throws {
        for daemon in [first, second] {
            let verified = try await daemon.harness.paytokenctl(["audit", "verify"])
            #expect(verified.status == 0, "\(verified)")
            #expect(try await daemon.harness.stop().status == 0)
        }
    }

    @Test("releases nothing with a key that is suspended on the other host until two people on two hosts resume it")
    func suspension() async throws {
        let merchant = try await merchant("suspended")
        #expect(try await first.decrypt(merchant).status == 200)
        #expect(try await second.decrypt(merchant).status == 200)
        try await wait(for: "both holders") { try await nodes(merchant, by: first) == ["host-1", "host-2"] }
        let suspended = try await first.run(.alice, "key", "suspend", merchant.hex, "--reason", "laptop stolen")
        #expect(suspended.status == 0, "\(suspended)")
        // The suspension takes effect even if the other host's cached list is older.
        #expect(try await second.decrypt(merchant).code == "key_not_active")
        try await wait(for: "the other host's list") { try await second.state(merchant) == "suspended" }

        let approval = try await first.ask(.alice, "key", "resume", merchant.hex, "--reason", "found again")
        let alone = try await second.run(.alice, "approval", "approve", approval)
        #expect(alone.status == 1 && alone.error.contains("a second person must"), "\(alone)")
        let approved = try await second.run(.bob, "approval", "approve", approval)
        #expect(approved.status == 0, "\(approved)")
        for part in ["Status     done", "Node       host-1", "Key's state  active"] {
            let words = part.split(whereSeparator: \.isWhitespace)
            #expect(
                approved.output.split(separator: "\n").contains {
                    $0.split(whereSeparator: \.isWhitespace) == words
                }, "\(part): \(approved)")
        }
        #expect(try await second.decrypt(merchant).status == 200)
        try await wait(for: "the first host's list") { try await first.state(merchant) == "active" }
        #expect(try await first.decrypt(merchant).status == 200)
        try await stop()
    }

    @Test("destroys a key on every host that holds it, even later, and lists the remaining hosts in key show")
    func destruction() async throws {
        let merchants = [try await merchant("destroyed"), try await merchant("later")]
        for merchant in merchants {
            #expect(try await first.run(nil, "key", "suspend", merchant.hex, "--reason", "r").status == 0)
        }
        try await wait(for: "the other host's list") { try await second.state(merchants[0]) == "suspended" }
        let approval = try await first.ask(.alice, "key", "destroy", merchants[0].hex, "--reason", "its end")
        let approved = try await second.run(.bob, "approval", "approve", approval)
        #expect(approved.status == 0, "\(approved)")
        try await wait(for: "no holder") { try await nodes(merchants[0], by: second) == [] }
        for daemon in [first, second] {
            try await wait(for: "the end") { try await daemon.state(merchants[0]) == "destroyed" }
            #expect(try await shown(merchants[0], by: daemon).objectValue?["tokens"]?.arrayValue?.isEmpty == true)
        }
        // The approval on the second host destroyed the key there. The first host then destroyed the key's objects
        // in its own HSM token.
        let events = try await first.records(merchants[0]).compactMap { $0.string("event") }
        #expect(events.last == "key_objects_destroy", "\(events)")
        #expect(try await first.records(merchants[0]).last?.string("token") == "primary")
        let decided = try await second.records(merchants[0]).compactMap { $0.string("event") }
        #expect(decided.suffix(2) == ["approval_decision", "key_state_change"], "\(decided)")

        try await wait(for: "both holders") { try await nodes(merchants[1], by: first) == ["host-1", "host-2"] }
        #expect(try await second.harness.stop().status == 0)
        #expect(try await first.run(nil, "key", "destroy", merchants[1].hex, "--reason", "r").status == 0)
        try await wait(for: "one holder less") { try await nodes(merchants[1], by: first) == ["host-2"] }
        let listed = try await first.run(nil, "key", "list")
        #expect(listed.output.contains("NODES") && listed.output.contains("host-2"), "\(listed)")
        try await second.harness.start()
        try await wait(for: "no holder") { try await nodes(merchants[1], by: first) == [] }
        try await stop()
    }

    @Test("makes an audit key on the requesting host after approval on another, but not by an unknown account")
    func auditKey() async throws {
        let approval = try await first.ask(.alice, "audit", "change-key", "--reason", "yearly")
        let herself = try await second.run(.carol, "approval", "approve", approval)
        #expect(herself.status == 1 && herself.error.contains("account names cannot be compared"), "\(herself)")
        let approved = try await second.run(.bob, "approval", "approve", approval)
        #expect(approved.status == 0 && approved.output.contains("the node host-1 carries it out"), "\(approved)")
        try await wait(for: "the first host's part") { try await first.approval(approval)?.string("status") == "done" }
        let keys = try await first.run(nil, "audit", "public-key")
        #expect(keys.output.components(separatedBy: "BEGIN PUBLIC KEY").count == 3, "\(keys)")
        let others = try await second.run(nil, "audit", "public-key")
        #expect(others.output.components(separatedBy: "BEGIN PUBLIC KEY").count == 2, "\(others)")
        let list = try await second.run(nil, "approval", "list")
        #expect(list.output.contains("NODE") && list.output.contains("host-1"), "\(list)")
        try await stop()
    }

    @Test("serves from a restored database after another person on the other host approves its acceptance")
    func acceptRestore() async throws {
        let merchant = try await merchant("restored")
        let forgotten = try SharedForge.paymentToken(for: merchant.merchant)
        #expect(try await first.harness.decrypt(forgotten).status == 200)
        try await database.sql(
            "DELETE FROM audit_record WHERE sequence > 2; DELETE FROM checkpoint WHERE sequence > 2; DELETE FROM claim")
        for daemon in [first, second] {
            try await wait(for: "both findings") {
                // Each daemon detects the restored database at its next commit.
                _ = try await daemon.decrypt(merchant)
                let ready = try await Curl.request("/readyz", socket: daemon.harness.socket).text
                return ready.contains("host-1: ") && ready.contains("host-2: ")
            }
        }
        let approval = try await first.ask(.alice, "ledger", "accept-restore", "--reason", "standby promoted")
        let herself = try await second.run(.carol, "approval", "approve", approval)
        #expect(herself.status == 1, "\(herself)")
        #expect(try await second.decrypt(merchant).code == "ledger_unavailable")
        let approved = try await second.run(.bob, "approval", "approve", approval)
        #expect(approved.status == 0 && approved.output.contains("the node host-1 carries it out"), "\(approved)")
        try await wait(for: "the first host's part") { try await first.approval(approval)?.string("status") == "done" }
        let fence = try await first.harness.restoreFence()
        #expect(try await second.harness.restoreFence() == fence)
        for daemon in [first, second] {
            #expect(try await daemon.harness.decrypt(forgotten).code == "transaction_replayed")
            let served = try await daemon.harness.paymentToken(signedAt: fence, for: merchant.merchant)
            #expect(try await daemon.harness.decrypt(served).status == 200)
        }
        #expect(try await database.sql("SELECT count(*) FROM hold") == "0")
        let accepted = "SELECT DISTINCT node FROM audit_record WHERE event = 'ledger_accept_restore' ORDER BY node"
        #expect(try await database.sql(accepted) == "host-1\nhost-2")
        try await stop()
    }

    @Test("fails with hsm_unavailable for a key that only the other host's HSM token holds, and serves it there")
    func keyOnOtherHostOnly() async throws {
        let merchant = try await first.merchant("absent")
        try await wait(for: "the other host's list") { try await second.state(merchant) == "active" }
        let refused = try await second.decrypt(merchant)
        #expect(refused.status == 503 && refused.code == "hsm_unavailable", "\(refused)")
        #expect(try await first.decrypt(merchant).status == 200)
        try await wait(for: "its holder") { try await nodes(merchant, by: second) == ["host-1"] }
        try await stop()
    }
}
