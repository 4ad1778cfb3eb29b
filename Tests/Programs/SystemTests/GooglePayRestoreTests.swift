import Foundation
import TestSupport
import Testing

/// Google Pay after an older copy of the ledger was restored and accepted, with the real programs.
extension GooglePayDecryptionTests {
    /// Starts a daemon with an old key that was unused for longer than the quiet time, a new one that is in use, and a released
    /// message.
    private func rotatingDaemon() async throws -> (
        harness: DaemonHarness, old: (hash: String, point: [UInt8]), new: (hash: String, point: [UInt8]), known: String
    ) {
        let harness = try await daemon()
        let (old, new) = (try await key(harness), try await key(harness))
        let known = try message(to: new.point, messageId: "known").json
        #expect(try await decrypt(known, harness, reference: "known").status == 200)
        #expect(try await harness.stop().status == 0)
        try await age(old.hash, days: 60, harness)
        try await harness.start()
        #expect(try await rotation(harness).string("phase") == "finish")
        return (harness, old, new, known)
    }

    /// Requires that no key counts as unused because of a ledger that lacks its last uses.
    private func expectInUse(_ hash: String, _ harness: DaemonHarness) async throws {
        #expect(try await rotation(harness).string("phase") == "overlap")
        let removed = try await harness.paytokenctl(["rotate", "removed", hash])
        #expect(removed.status == 1 && removed.error.contains("counts as unused from"), "\(removed)")
    }

    /// Waits until a message that counts as signed one second after the fence is released, as it is no longer from the future.
    private func expectReleased(
        after fence: Date, to point: [UInt8], messageId: String, _ harness: DaemonHarness
    ) async throws {
        let late = try message(
            to: point, messageId: messageId, expiration: fence.addingTimeInterval(7 * 86_400 + 1)
        ).json
        try await wait(for: "the first message after the fence") {
            let answer = try await decrypt(late, harness, reference: "after")
            guard answer.code != "signing_time_outside_window" else { return false }
            #expect(answer.status == 200, "\(answer)")
            return true
        }
        #expect(try await decrypt(late, harness, reference: "again").code == "transaction_replayed")
    }

    @Test("counts no key as unused after a restore, and releases no message again that the copy lacks")
    func restored() async throws {
        let (harness, old, new, known) = try await rotatingDaemon()
        let copy = harness.directory.path("backup.sqlite")
        #expect(try await harness.paytokenctl(["ledger", "backup", copy]).status == 0)
        let lost = try message(to: old.point, messageId: "lost").json
        #expect(try await decrypt(lost, harness).status == 200)
        #expect(try await harness.stop().status == 0)

        let restored = try await harness.paytokenctl([
            "ledger", "restore", copy, "--to", "sqlite:" + harness.directory.path("ledger.sqlite"),
        ])
        #expect(restored.status == 0, "\(restored)")
        try await harness.start(["--await-restore"], untilReady: false)
        try await wait(for: "the finding") {
            try await Curl.request("/readyz", socket: harness.socket).body.holds(Array("accept-restore".utf8))
        }
        #expect(try await decrypt(lost, harness).code == "ledger_unavailable")
        let accepted = try await harness.paytokenctl(["ledger", "accept-restore", "--reason", "disk lost"])
        #expect(accepted.status == 0, "\(accepted)")
        let fence = try await harness.restoreFence()
        // The copy lacks the claim of this message, and the last use of its key.
        #expect(try await decrypt(lost, harness).code == "transaction_replayed")
        #expect(try await decrypt(lost, harness, reference: "order-2").code == "transaction_replayed")
        let twin = try message(to: new.point, messageId: "lost").json
        #expect(try await decrypt(twin, harness).code == "transaction_replayed")
        #expect(try await decrypt(known, harness, reference: "known").member("repeated") == .bool(true))
        try await expectInUse(old.hash, harness)
        try await expectReleased(after: fence, to: old.point, messageId: "late", harness)
        let verified = try await harness.paytokenctl(["audit", "verify"])
        #expect(verified.status == 0, "\(verified)")
        #expect(try await harness.stop().status == 0)
        try await harness.start(untilReady: false)
        #expect(try await harness.restoreFence() == fence)
        #expect(try await decrypt(lost, harness).code == "transaction_replayed")
        try await expectInUse(old.hash, harness)
        #expect(try await harness.stop().status == 0)
    }

    @Test("repeats a message that the accepted ledger knows, and refuses others that were signed before", .everyEngine)
    func accepted() async throws {
        let (harness, old, new, known) = try await rotatingDaemon()
        let accepted = try await harness.paytokenctl([
            "ledger", "accept-restore", "--without-finding", "--reason", "the server was lost",
        ])
        #expect(accepted.status == 0, "\(accepted)")
        let fence = try await harness.restoreFence()
        let unknown = try message(to: old.point, messageId: "unknown").json
        #expect(try await decrypt(unknown, harness).code == "transaction_replayed")
        let twin = try message(to: new.point, messageId: "known").json
        #expect(try await decrypt(twin, harness).code == "transaction_replayed")
        #expect(try await decrypt(known, harness).code == "transaction_replayed")
        #expect(try await decrypt(known, harness, reference: "known").member("repeated") == .bool(true))
        try await expectReleased(after: fence, to: new.point, messageId: "late", harness)
        try await expectInUse(old.hash, harness)
        #expect(try await harness.stop().status == 0)
    }
}
