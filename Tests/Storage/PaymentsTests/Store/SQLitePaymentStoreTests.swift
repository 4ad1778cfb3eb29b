import Foundation
import GRDB
import SQLiteFiles
import TestSupport
import Testing

@testable import Payments

@Suite struct SQLitePaymentStoreTests {
    @Test("keeps every acknowledged change when the process is killed")
    func survivesKill() async throws {
        let fixture = try await StoreFixture()
        let submitting = try await fixture.submitting(fixture.arrival())
        // Copying the open files has the same result as a kill.
        let copy = try FreshDirectory()
        for name in ["payments.sqlite", "payments.sqlite-wal"] {
            try FileManager.default.copyItem(atPath: fixture.directory.path(name), toPath: copy.path(name))
        }
        let again = try SQLitePaymentStore(path: copy.path("payments.sqlite"))
        let found = try #require(try await again.payment(transaction: fixture.transaction().identifier))
        #expect(found.state == .submitting && found.attempt.identifier == submitting.attempt.identifier)
        #expect(found.transaction == submitting.transaction)
        // A free lock proves that the owner has ended, so the takeover does not wait for the attempt's deadline.
        #expect(try await again.takeOverAbandoned(at: fixture.now) == 1)
    }

    @Test("refuses to open the file for a second gateway")
    func oneGateway() async throws {
        let fixture = try await StoreFixture()
        let path = fixture.directory.path("payments.sqlite")
        #expect(throws: PaymentStoreOpeningError.inUse(path: path)) { try SQLitePaymentStore(path: path) }
        await fixture.store.close()
        _ = try SQLitePaymentStore(path: path)
    }

    @Test("refuses a file that other accounts can read, and one that is not a store")
    func unsuitableFiles() throws {
        let directory = try FreshDirectory()
        let open = try directory.write([], to: "open.sqlite", mode: 0o644)
        #expect(throws: PaymentStoreOpeningError.self) { try SQLitePaymentStore(path: open) }
        let text = try directory.write(Array("This is a text, and has been one for a long time.".utf8), to: "text")
        #expect(throws: PaymentStoreOpeningError.notAStore(place: text)) { try SQLitePaymentStore(path: text) }
        let other = directory.path("other.sqlite")
        try DatabaseQueue(path: other).write { try $0.execute(sql: "CREATE TABLE other (a)") }
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: other)
        #expect(throws: PaymentStoreOpeningError.notAStore(place: other)) { try SQLitePaymentStore(path: other) }
        let newer = directory.path("newer.sqlite")
        try DatabaseQueue(path: newer).write { db in
            try db.execute(
                sql: "CREATE TABLE payment_store (schema_version INTEGER); INSERT INTO payment_store VALUES (99)")
        }
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: newer)
        #expect(throws: PaymentStoreOpeningError.newerSchema(place: newer, found: 99, known: 2)) {
            try SQLitePaymentStore(path: newer)
        }
        let missing = directory.path("missing/payments.sqlite")
        #expect(throws: PaymentStoreOpeningError.noDirectory(path: directory.path("missing"))) {
            try SQLitePaymentStore(path: missing)
        }
    }

    private struct Fault: Error {}

    /// The result that the test gives to commits.
    private enum Commits: Sendable { case work, fail, loseAcknowledgement }

    @Test("stores nothing when a commit fails, and finds the change when only the acknowledgement is lost")
    func readBack() async throws {
        let commits = Shared(Commits.work)
        let fixture = try await StoreFixture()
        let store = try #require(fixture.store as? SQLitePaymentStore)
        try await SQLiteFaults(
            beforeCommit: { if commits.current == .fail { throw Fault() } },
            losesAcknowledgement: { commits.current == .loseAcknowledgement }
        ).install(on: store.connections.writer.connection)
        commits.change { $0 = .fail }
        await #expect(throws: PaymentStoreError.unavailable(reason: "Fault.")) {
            try await fixture.begun(fixture.arrival())
        }
        commits.change { $0 = .loseAcknowledgement }
        let (payment, _) = try await fixture.begun(fixture.arrival())
        let claim = try await store.claim(payment, fixture.transaction(), as: .submitting, nil, at: fixture.now)
        guard case .claimed(let claimed) = claim else { throw StoreFixture.NotBegun() }
        let pending = try await store.storeOutcome(claimed, as: .pending, PaymentOutcome(), at: fixture.now)
        let declined = try await store.resolve(
            transaction: fixture.transaction().identifier, as: .declined, by: "operator", reason: "asked",
            at: fixture.now)
        #expect(pending.state == .pending && declined.state == .declined)
        let states = try await store.history(of: payment.key).map(\.state)
        #expect(states == [.received, .decrypted, .submitting, .pending, .declined])
    }

    @Test("finds both changes of a payment whose shared commit lost its acknowledgement")
    func readBackTogether() async throws {
        let commits = Shared(Commits.work)
        let fixture = try await StoreFixture()
        let store = try #require(fixture.store as? SQLitePaymentStore)
        let hang = Hang()
        defer { hang.end() }
        try await SQLiteFaults(
            beforeCommit: hang.pass, losesAcknowledgement: { commits.current == .loseAcknowledgement }
        ).install(on: store.connections.writer.connection)
        let submitting = try await fixture.submitting(fixture.arrival())
        hang.begin()
        let other = Begun { try? await fixture.begun(fixture.arrival("other")) }
        try await hang.waitUntilBlocking()
        commits.change { $0 = .loseAcknowledgement }
        let pending = Begun {
            try? await store.storeOutcome(submitting, as: .pending, PaymentOutcome(), at: fixture.now)
        }
        try await wait(for: "the first") { try store.connections.writer.writes.waiting == 1 }
        let captured = Begun {
            try? await store.storeOutcome(submitting, as: .captured, PaymentOutcome(), at: fixture.now)
        }
        try await wait(for: "the second") { try store.connections.writer.writes.waiting == 2 }
        hang.end()
        #expect(try await other.value() != nil)
        let states = [try await pending.value()?.state, try await captured.value()?.state]
        #expect(states == [.pending, .captured])
    }

    @Test("reports a commit as in doubt if its outcome cannot be read back")
    func doubt() async throws {
        let fixture = try await StoreFixture()
        let store = try #require(fixture.store as? SQLitePaymentStore)
        let path = fixture.directory.path("payments.sqlite")
        let (payment, _) = try await fixture.begun(fixture.arrival())
        // The file is removed during the commit.
        try await SQLiteFaults(losesAcknowledgement: {
            (try? FileManager.default.moveItem(atPath: path, toPath: path + ".away")) != nil
        }).install(on: store.connections.writer.connection)
        let error = await #expect(throws: PaymentStoreError.self) {
            try await store.claim(payment, fixture.transaction(), as: .submitting, nil, at: fixture.now)
        }
        guard case .inDoubt? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        try FileManager.default.moveItem(atPath: path + ".away", toPath: path)
        // The change was committed. The payment stays in this state until the attempt counts as abandoned.
        #expect(try await store.payment(transaction: fixture.transaction().identifier)?.state == .submitting)
    }

    @Test("reports a hanging change as in doubt at its deadline, and drops changes that wait for its commit")
    func deadline() async throws {
        let fixture = try await StoreFixture()
        let store = try #require(fixture.store as? SQLitePaymentStore)
        let hang = Hang()
        defer { hang.end() }
        try await SQLiteFaults(beforeCommit: hang.pass).install(on: store.connections.writer.connection)
        func begin(_ token: String) -> Begun<PaymentStoreError?> {
            Begun {
                await #expect(throws: PaymentStoreError.self) { _ = try await fixture.begun(fixture.arrival(token)) }
            }
        }
        hang.begin()
        let first = begin("first")
        try await hang.waitUntilBlocking()
        let second = begin("second")
        try await wait(for: "the second") { try store.connections.writer.writes.waiting == 1 }
        store.connections.deadlines.expire(asOf: .max - 1)
        guard case .inDoubt? = try await first.value(), case .unavailable? = try await second.value() else {
            Issue.record("one of them is answered otherwise")
            return
        }
        hang.end()
        try await wait(for: "the late commit") { try await store.payments(PaymentFilter()).count == 1 }
    }

    @Test("stops reading and writing once its file is replaced")
    func replacedFile() async throws {
        let fixture = try await StoreFixture()
        _ = try await fixture.begun(fixture.arrival())
        let path = fixture.directory.path("payments.sqlite")
        let copy = fixture.directory.path("copy")
        try FileManager.default.copyItem(atPath: path, toPath: copy)
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.moveItem(atPath: copy, toPath: path)
        await #expect(throws: PaymentStoreError.self) { try await fixture.begun(fixture.arrival("another")) }
        await #expect(throws: PaymentStoreError.self) { try await fixture.store.payments(PaymentFilter()) }
    }

    @Test("enforces the rules for payments in the database file too, against other programs")
    func triggers() async throws {
        let fixture = try await StoreFixture()
        let submitting = try await fixture.submitting(fixture.arrival())
        _ = try await fixture.store.storeOutcome(submitting, as: .pending, PaymentOutcome(), at: fixture.now)
        let other = try DatabaseQueue(path: fixture.directory.path("payments.sqlite"))
        for statement in [
            "DELETE FROM payment", "UPDATE payment SET state = 'received'", "UPDATE payment SET state = 'not_sent'",
            "UPDATE payment SET transaction_id = NULL", "DELETE FROM payment_change",
            "UPDATE payment_change SET reason = 'x'",
        ] {
            #expect(throws: DatabaseError.self, "\(statement)") { try other.write { try $0.execute(sql: statement) } }
        }
    }

    @Test("lists no attempt as harmless that a restored store does not know")
    func restoredCopy() async throws {
        let fixture = try await StoreFixture()
        let (first, _) = try await fixture.begun(fixture.arrival())
        _ = try await fixture.store.end(first, as: .notSent, PaymentOutcome(), at: fixture.now)
        let copy = try FreshDirectory()
        for name in ["payments.sqlite", "payments.sqlite-wal"] {
            try FileManager.default.copyItem(atPath: fixture.directory.path(name), toPath: copy.path(name))
        }
        // The payment is authorized after the copy was made, so the copy does not contain its outcome.
        _ = try await fixture.store.storeOutcome(
            fixture.submitting(fixture.arrival()), as: .authorized, PaymentOutcome(), at: fixture.now)
        let restored = try SQLitePaymentStore(path: copy.path("payments.sqlite"))
        guard case .begun(_, let after) = try await restored.begin(fixture.arrival(), at: fixture.now) else {
            throw StoreFixture.NotBegun()
        }
        #expect(after == [first.attempt.identifier])
    }
}
