import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The security team's handling of a compromised key, from the first alarm to the key's destruction.
@Suite(.enabled(Staff.needsRoot) { try await Staff.canAct() }, .everyEngine)
struct CompromiseTests {
    @Test(
        "suspends a compromised key at once, marks and destroys it after approvals, and records each step")
    func fromAlarmToDestruction() async throws {
        let daemon = try await StaffedDaemon()
        let merchant = try await daemon.merchant("leaked")
        #expect(try await daemon.decrypt(merchant).status == 200)

        let first = try await daemon.ask(.alice, "key", "compromise", merchant.hex, "--reason", "found in a repository")
        #expect(try await daemon.state(merchant) == "suspended")
        #expect(try await daemon.decrypt(merchant).code == "key_not_active")
        let waiting = try await daemon.run(.bob, "approval", "list")
        #expect(waiting.status == 0)
        let line = try #require(waiting.output.split(separator: "\n").dropFirst().first)
        #expect(line.contains(first) && line.contains("key_compromise") && line.contains("alice (8)"))
        #expect(line.hasSuffix("found in a repository"))

        let approved = try await daemon.run(.bob, "approval", "approve", first)
        #expect(approved.status == 0, "\(approved)")
        // With a shared ledger, the output for an approval shows the requester's node.
        let node = StorageEngine.current == .postgresql ? "Node         node-1\n" : ""
        #expect(
            approved.output == """
                Approval     \(first)
                Operation    key_compromise
                Status       done
                Key          \(Data(merchant.merchant.publicKeyHash).base64EncodedString())
                Key's state  compromised
                \(node)
                """)
        // A compromised key can only be destroyed.
        for verb in ["resume", "suspend", "retire"] {
            let back = try await daemon.run(nil, "key", verb, merchant.hex, "--reason", "a mistake")
            #expect(back.status == 1)
            #expect(back.error.hasPrefix("invalid_state: A key that is compromised cannot become "), "\(back)")
            #expect(back.error.contains("(from compromised it can become destroyed)\n"), "\(back)")
        }
        let imported = try await daemon.harness.importMerchant(merchant)
        #expect(imported.status == 1 && imported.error.hasPrefix("invalid_state: "), "\(imported)")

        let second = try await daemon.ask(.bob, "key", "destroy", merchant.hex, "--reason", "compromised")
        #expect(try await daemon.run(.alice, "approval", "approve", second).status == 0)
        let shown = try await daemon.run(nil, "key", "show", merchant.hex, "--output", "json")
        let key = try #require(try JSONValue(parsing: shown.outputBytes).objectValue)
        #expect(key["state"]?.stringValue == "destroyed")
        #expect(key["condition"]?.stringValue == "missing")
        #expect(key["tokens"]?.arrayValue?.isEmpty == true)
        #expect(try await daemon.decrypt(merchant).code == "key_not_active")

        try await expectRecords(daemon, merchant, [first, second])
        // The key remains destroyed after a restart.
        #expect(try await daemon.harness.stop().status == 0)
        try await daemon.harness.start()
        #expect(try await daemon.state(merchant) == "destroyed")
        #expect(try await daemon.decrypt(merchant).code == "key_not_active")
        #expect(try await daemon.isIntact())
        #expect(try await daemon.harness.stop().status == 0)
    }

    /// Requires that the key's audit records contain each step with the person who took it.
    private func expectRecords(
        _ daemon: StaffedDaemon, _ merchant: ForgedMerchant, _ approvals: [String]
    ) async throws {
        struct Line: Equatable {
            let event, outcome: String?
            /// The name of the caller's access rule, which is the person's name.
            let caller: String?
            let uid: String?
            let detail: String?
        }
        // The daemon records the key's attributes by itself, at a time of its own.
        let records = try await daemon.records(merchant).filter { $0.string("event") != "key_attributes" }
        let lines = records.map { record in
            Line(
                event: record.string("event"), outcome: record.string("outcome"),
                caller: record.objectValue?["caller"]?.string("name"),
                uid: record.objectValue?["caller"]?.objectValue?["uid"]?.numberValue?.text,
                detail: record.string("to") ?? record.string("decision"))
        }
        /// Returns the expected record of one event. If `who` is nil, the caller is root, who is not a member of the
        /// staff.
        func line(_ event: String, _ outcome: String, _ who: Staff?, _ detail: String? = nil) -> Line {
            Line(
                event: event, outcome: outcome, caller: who.map { "\($0)" } ?? "root",
                uid: String(who?.rawValue ?? geteuid()), detail: detail)
        }
        let expected = [
            line("key_import", "ok", nil), line("decrypt", "ok", nil),
            line("key_state_change", "ok", .alice, "suspended"), line("approval_request", "ok", .alice),
            line("decrypt", "key_not_active", nil),
            line("approval_decision", "ok", .bob, "approve"), line("key_state_change", "ok", .bob, "compromised"),
            line("key_state_change", "invalid_state", nil, "active"),
            line("key_state_change", "invalid_state", nil, "suspended"),
            line("key_state_change", "invalid_state", nil, "deactivated"), line("key_import", "invalid_state", nil),
            line("approval_request", "ok", .bob), line("approval_decision", "ok", .alice, "approve"),
            line("key_state_change", "ok", .alice, "destroyed"), line("decrypt", "key_not_active", nil),
        ]
        #expect(lines == expected)
        let named = Set(try await daemon.records(merchant).compactMap { $0.string("approval") })
        #expect(named == Set(approvals))
        #expect(try await daemon.isIntact())
    }
}
