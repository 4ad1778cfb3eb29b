import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Operations that need two people, and attempts to bypass the rule, with the real programs under real accounts.
@Suite(.enabled(Staff.needsRoot) { try await Staff.canAct() })
struct TwoPersonTests {
    private static let started = OncePerLedger { try await StaffedDaemon() }

    @Test(
        "completes an approved import only for its requester and with the same files", .everyEngine
    )
    func keyImport() async throws {
        let daemon = try await Self.started.value
        func forged(_ name: String) throws -> ForgedMerchant {
            try ForgedMerchant(
                authority: SharedForge.authority, type: .p256,
                profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.\(name)"))
        }
        let (merchant, other) = (try forged("import"), try forged("substitute"))
        let files = try merchant.files(for: .alice)
        let substitutes = try other.files(for: .alice)
        func words(_ files: FreshDirectory, _ more: [String] = []) -> [String] {
            ["key", "import", "--private-key", files.path("m.key.pem"), "--certificate", files.path("m.pem")] + more
        }
        let asked = try await daemon.harness.paytokenctl(words(files), as: Staff.alice.identity)
        #expect(asked.status == 75, "\(asked)")
        let approval = try #require(asked.error.split(whereSeparator: \.isWhitespace).last.map(String.init))
        #expect(try await daemon.decrypt(merchant).code == "unknown_public_key_hash")
        func use(_ files: FreshDirectory, as who: Staff, saying sentence: String) async throws {
            let used = try await daemon.harness.paytokenctl(words(files, ["--approval", approval]), as: who.identity)
            #expect(used.status == 1 && used.error.hasPrefix("approval_invalid: \(sentence)"), "\(used)")
        }
        try await use(files, as: .alice, saying: "The operation is not approved yet")
        let alone = try await daemon.run(.alice, "approval", "approve", approval)
        #expect(alone.status == 1 && alone.error.contains("a second person must"), "\(alone)")
        let approved = try await daemon.run(.bob, "approval", "approve", approval)
        #expect(approved.status == 0 && approved.output.contains("Status            approved"), "\(approved)")
        #expect(try await daemon.decrypt(merchant).code == "unknown_public_key_hash")
        // Bob uses the approval's name with his copy of the files.
        try await use(try merchant.files(for: .bob), as: .bob, saying: "Only the person who asked")
        try await use(substitutes, as: .alice, saying: "The approval was given for another operation, for other")
        let done = try await daemon.harness.paytokenctl(
            words(files, ["--approval", approval]), as: Staff.alice.identity)
        #expect(done.status == 0, "\(done)")
        #expect(try await daemon.decrypt(merchant).status == 200)
        try await use(files, as: .alice, saying: "The approval is done")
        #expect(try await daemon.decrypt(other).code == "unknown_public_key_hash")
        let events = try await daemon.records(merchant).compactMap { $0.string("event") }
        #expect(events.contains("approval_request") && events.contains("approval_decision"), "\(events)")
        #expect(events.filter { $0 == "key_import" }.count >= 1)
    }

    @Test(
        "changes the audit key only with two people, after which the record verifies only with both keys"
    )
    func auditKey() async throws {
        let daemon = try await StaffedDaemon()
        let files = try FreshDirectory()
        try files.write(try await daemon.run(nil, "audit", "public-key").outputBytes, to: "old.pem")
        let tried = try await daemon.run(.alice, "audit", "change-key", "--reason", "yearly", "--dry-run")
        #expect(tried.status == 0 && tried.output.contains("unchanged"), "\(tried)")
        let monitor = try await daemon.run(.carol, "audit", "change-key", "--reason", "yearly")
        #expect(monitor.status == 77, "\(monitor)")
        let approval = try await daemon.ask(.alice, "audit", "change-key", "--reason", "yearly")
        let alone = try await daemon.run(.alice, "approval", "approve", approval)
        #expect(alone.status == 1 && alone.error.contains("a second person must"), "\(alone)")
        let approved = try await daemon.run(.bob, "approval", "approve", approval)
        #expect(approved.status == 0 && approved.output.contains("audit_key_change"), "\(approved)")

        let keys = try await daemon.run(nil, "audit", "public-key")
        #expect(keys.output.components(separatedBy: "BEGIN PUBLIC KEY").count == 3, "\(keys)")
        try files.write(keys.outputBytes, to: "keys.pem")
        #expect(try await daemon.isIntact())
        #expect(try await daemon.run(nil, "audit", "export", "--out", files.path("record.jsonl")).status == 0)
        for (file, status) in [("keys.pem", Int32(2)), ("old.pem", 1)] {
            let verified = try await daemon.run(
                nil, "audit", "verify", "--export", files.path("record.jsonl"), "--public-key", files.path(file))
            #expect(verified.status == status, "\(file): \(verified)")
        }
        // After a restart, the daemon continues with the new key.
        #expect(try await daemon.harness.stop().status == 0)
        try await daemon.harness.start()
        #expect(try await daemon.isIntact())
        let root = try await daemon.run(nil, "audit", "change-key", "--reason", "again", "--output", "json")
        #expect(root.status == 0, "\(root)")
        let answer = try JSONValue(parsing: root.outputBytes).objectValue
        #expect(answer?["status"]?.stringValue == "changed")
        #expect(answer?["publicKey"]?.stringValue?.hasPrefix("-----BEGIN PUBLIC KEY-----") == true)
        #expect(try await daemon.isIntact())
    }

    @Test("suspends a key with one person at once, and requires two people to resume it", .everyEngine)
    func resume() async throws {
        let daemon = try await Self.started.value
        let merchant = try await daemon.merchant("resume")
        #expect(try await daemon.run(.alice, "key", "suspend", merchant.hex, "--reason", "laptop stolen").status == 0)
        #expect(try await daemon.decrypt(merchant).code == "key_not_active")
        let approval = try await daemon.ask(.alice, "key", "resume", merchant.hex, "--reason", "laptop found")
        #expect(try await daemon.decrypt(merchant).code == "key_not_active")
        let alone = try await daemon.run(.alice, "approval", "approve", approval)
        #expect(alone.status == 1 && alone.error.hasPrefix("approval_invalid: "), "\(alone)")
        let looking = try await daemon.run(.carol, "approval", "approve", approval)
        #expect(looking.status == 77 && looking.error.hasPrefix("forbidden: "), "\(looking)")
        #expect(try await daemon.state(merchant) == "suspended")
        let done = try await daemon.run(.bob, "approval", "approve", approval)
        #expect(done.status == 0 && done.output.contains("Key's state  active"), "\(done)")
        #expect(try await daemon.decrypt(merchant).status == 200)
        let again = try await daemon.run(.bob, "approval", "approve", approval)
        #expect(again.status == 1 && again.error.contains("The approval is done"), "\(again)")
    }

    @Test("does not reactivate an immediately retired key when its suspension ends")
    func retiredStaysRetired() async throws {
        let daemon = try await Self.started.value
        let merchant = try await daemon.merchant("detour")
        #expect(try await daemon.run(nil, "key", "retire", merchant.hex, "--reason", "rotated").status == 0)
        #expect(try await daemon.run(.alice, "key", "suspend", merchant.hex, "--reason", "r").status == 0)
        let approval = try await daemon.ask(.alice, "key", "resume", merchant.hex, "--reason", "r")
        let approved = try await daemon.run(.bob, "approval", "approve", approval)
        #expect(approved.status == 0 && approved.output.contains("Key's state  deactivated"), "\(approved)")
        let refused = try await daemon.decrypt(merchant)
        #expect(refused.code == "key_not_active")
        #expect(refused.string("message")?.contains("deactivated and its cut-off, 2") == true, "\(refused)")
        // The audit record of the resumption contains the state that resulted from it.
        #expect(
            try await daemon.records(merchant).last { $0.string("event") == "key_state_change" }?.string("to")
                == "deactivated")
        // A report of a compromise suspends the key. Its withdrawal does not reactivate the key either.
        let compromise = try await daemon.ask(.alice, "key", "compromise", merchant.hex, "--reason", "r")
        #expect(try await daemon.run(.alice, "approval", "withdraw", compromise).status == 0)
        #expect(try await daemon.state(merchant) == "suspended")
        #expect(try await daemon.run(nil, "key", "resume", merchant.hex, "--reason", "a mistake").status == 0)
        #expect(try await daemon.state(merchant) == "deactivated")
        #expect(try await daemon.decrypt(merchant).code == "key_not_active")
    }

    @Test("does not carry out a rejected or withdrawn request, and lets only the requester withdraw it", .everyEngine)
    func rejectedAndWithdrawn() async throws {
        let daemon = try await Self.started.value
        let merchant = try await daemon.merchant("rejected")
        #expect(try await daemon.run(nil, "key", "retire", merchant.hex, "--reason", "rotated").status == 0)
        let first = try await daemon.ask(.alice, "key", "destroy", merchant.hex, "--reason", "retired")
        let notHis = try await daemon.run(.bob, "approval", "withdraw", first)
        #expect(notHis.status == 1 && notHis.error.contains("Only the person who asked"), "\(notHis)")
        let rejected = try await daemon.run(.bob, "approval", "reject", first, "--reason", "too early")
        #expect(rejected.status == 0 && rejected.output.contains("Status            rejected"), "\(rejected)")
        let second = try await daemon.ask(.alice, "key", "destroy", merchant.hex, "--reason", "retired")
        let withdrawn = try await daemon.run(.alice, "approval", "withdraw", second)
        #expect(withdrawn.status == 0 && withdrawn.output.contains("Status            withdrawn"), "\(withdrawn)")
        for (approval, status) in [(first, "rejected"), (second, "withdrawn")] {
            let late = try await daemon.run(.bob, "approval", "approve", approval)
            #expect(late.status == 1 && late.error.contains("The approval is \(status)"), "\(late)")
        }
        #expect(try await daemon.state(merchant) == "deactivated")
    }

    @Test("refuses to carry out a request if the key's state has changed since", .everyEngine)
    func keyChanged() async throws {
        let daemon = try await Self.started.value
        let merchant = try await daemon.merchant("changed")
        #expect(try await daemon.run(.bob, "key", "suspend", merchant.hex, "--reason", "r").status == 0)
        let approval = try await daemon.ask(.alice, "key", "destroy", merchant.hex, "--reason", "r")
        // Root can resume the key without a second person.
        #expect(try await daemon.run(nil, "key", "resume", merchant.hex, "--reason", "a mistake").status == 0)
        #expect(try await daemon.run(nil, "key", "retire", merchant.hex, "--reason", "rotated").status == 0)
        let late = try await daemon.run(.bob, "approval", "approve", approval)
        #expect(late.status == 1 && late.error.contains("from suspended to deactivated"), "\(late)")
        #expect(try await daemon.state(merchant) == "deactivated")
    }

    @Test("refuses a late approval, and expires the request", .everyEngine)
    func expired() async throws {
        let daemon = try await Self.started.value
        let merchant = try await daemon.merchant("expired")
        #expect(try await daemon.run(.bob, "key", "suspend", merchant.hex, "--reason", "r").status == 0)
        let approval = try await daemon.ask(.alice, "key", "resume", merchant.hex, "--reason", "r")
        try await daemon.letExpire(approval)
        #expect(try await daemon.approval(approval)?.string("status") == "expired")
        for verb in ["approve", "reject"] {
            let late = try await daemon.run(.bob, "approval", verb, approval)
            #expect(late.status == 1 && late.error.contains("The approval has expired"), "\(late)")
        }
        #expect(try await daemon.state(merchant) == "suspended")
    }

    @Test("refuses to carry out a request of a person who has lost the role", .everyEngine)
    func roleLost() async throws {
        let daemon = try await StaffedDaemon()
        let merchant = try await daemon.merchant("role")
        #expect(try await daemon.run(.bob, "key", "suspend", merchant.hex, "--reason", "r").status == 0)
        let approval = try await daemon.ask(.alice, "key", "resume", merchant.hex, "--reason", "r")
        try daemon.harness.configure(Staff.configuration(["{ user: \"8\", roles: [monitor] }"]))
        try daemon.harness.daemon.signal(SIGHUP)
        try await wait(for: "the new rules") {
            try await daemon.run(.alice, "approval", "list").status == 77
        }
        let late = try await daemon.run(.bob, "approval", "approve", approval)
        #expect(late.status == 1 && late.error.contains("no longer has the role admin"), "\(late)")
        #expect(try await daemon.state(merchant) == "suspended")
        // Alice also cannot resume the key alone.
        let alone = try await daemon.run(.alice, "key", "resume", merchant.hex, "--reason", "r")
        #expect(alone.status == 77, "\(alone)")
        #expect(try await daemon.harness.stop().status == 0)
    }

    @Test("keeps requests, the rule of two people and the suspension across a restart", .everyEngine)
    func restart() async throws {
        let daemon = try await StaffedDaemon()
        let merchant = try await daemon.merchant("restart")
        let approval = try await daemon.ask(
            .alice, "key", "compromise", merchant.hex, "--reason", "found in a repository")
        #expect(try await daemon.harness.stop().status == 0)
        try await daemon.harness.start()
        #expect(try await daemon.decrypt(merchant).code == "key_not_active")
        #expect(try await daemon.run(.alice, "approval", "approve", approval).status == 1)
        #expect(try await daemon.run(.bob, "approval", "approve", approval).status == 0)
        #expect(try await daemon.state(merchant) == "compromised")
        #expect(try await daemon.harness.stop().status == 0)
    }

    @Test("requires two people to accept a restored ledger, and to adopt a key that the ledger does not know")
    func acceptAndAdopt() async throws {
        let daemon = try await StaffedDaemon()
        let backup = daemon.harness.directory.path("backup.sqlite")
        #expect(try await daemon.run(nil, "ledger", "backup", backup).status == 0)
        let merchant = try await daemon.merchant("adopted")
        #expect(try await daemon.harness.stop().status == 0)
        for name in ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"] {
            try? FileManager.default.removeItem(atPath: daemon.harness.directory.path(name))
        }
        try FileManager.default.copyItem(atPath: backup, toPath: daemon.harness.directory.path("ledger.sqlite"))
        try await daemon.harness.start(["--await-restore"], untilReady: false)
        try await wait(for: "the comparison") {
            try await Curl.request("/readyz", socket: daemon.harness.socket).text.contains("is an older copy")
        }
        let restore = try await daemon.ask(.alice, "ledger", "accept-restore", "--reason", "disk failed")
        #expect(try await daemon.run(.alice, "approval", "approve", restore).status == 1)
        #expect(try await daemon.decrypt(merchant).status != 200)
        let accepted = try await daemon.run(.bob, "approval", "approve", restore)
        #expect(accepted.status == 0, "\(accepted)")
        let fence = try await daemon.harness.restoreFence()

        // The ledger was copied before the import, so it does not know the key in the HSM token.
        #expect(try await daemon.decrypt(merchant).code == "key_not_active")
        let adoption = try await daemon.ask(
            .alice, "key", "adopt", merchant.hex, "--reason", "imported after the backup")
        #expect(try await daemon.run(.alice, "approval", "approve", adoption).status == 1)
        #expect(try await daemon.decrypt(merchant).code == "key_not_active")
        #expect(try await daemon.run(.bob, "approval", "approve", adoption).status == 0)
        #expect(try await daemon.decrypt(merchant).code == "transaction_replayed", "signed before the fence")
        let later = try await daemon.harness.paymentToken(signedAt: fence, for: merchant.merchant)
        #expect(try await daemon.harness.decrypt(later).status == 200)
        #expect(try await daemon.isIntact())
        #expect(try await daemon.harness.stop().status == 0)
    }

    @Test(
        "counts two accounts with the same login uid, or one account with two login uids, as one person",
        .enabled("run it where root can set a login uid, outside a container") { try await Staff.canLogIn() })
    func loginUID() async throws {
        let daemon = try await Self.started.value
        let merchant = try await daemon.merchant("login")
        func run(_ who: Staff, _ login: UInt32, _ arguments: String...) async throws -> ProgramResult {
            var identity = who.identity
            identity.loginUID = login
            return try await daemon.harness.paytokenctl(arguments, as: identity)
        }
        #expect(try await run(.alice, 22001, "key", "suspend", merchant.hex, "--reason", "r").status == 0)
        let asked = try await run(.alice, 22001, "key", "resume", merchant.hex, "--reason", "r")
        #expect(asked.status == 75, "\(asked)")
        let approval = try #require(asked.error.split(whereSeparator: \.isWhitespace).last.map(String.init))
        // A person remains the same after su or sudo, and users of a shared account count as one person.
        for (who, login): (Staff, UInt32) in [(.bob, 22001), (.bob, Staff.alice.rawValue), (.alice, 22002)] {
            let same = try await run(who, login, "approval", "approve", approval)
            #expect(same.status == 1 && same.error.contains("a second person must"), "\(who) \(login): \(same)")
        }
        let other = try await run(.bob, 22002, "approval", "approve", approval)
        #expect(other.status == 0, "\(other)")
        #expect(try await daemon.decrypt(merchant).status == 200)
    }

    @Test("records at its start each request that expired while the daemon was down", .everyEngine)
    func expiredAtStart() async throws {
        let daemon = try await StaffedDaemon()
        let merchant = try await daemon.merchant("lapsed")
        #expect(try await daemon.run(.bob, "key", "suspend", merchant.hex, "--reason", "r").status == 0)
        let approval = try await daemon.ask(.alice, "key", "resume", merchant.hex, "--reason", "r")
        #expect(try await daemon.harness.stop().status == 0)
        try await daemon.letExpire(approval)
        try await daemon.harness.start()
        try await wait(for: "the record of it") {
            try await daemon.records(merchant).contains {
                $0.string("event") == "approval_decision" && $0.string("decision") == "expire"
                    && $0.string("approval") == approval
            }
        }
        #expect(try await daemon.isIntact())
        #expect(try await daemon.harness.stop().status == 0)
    }
}
