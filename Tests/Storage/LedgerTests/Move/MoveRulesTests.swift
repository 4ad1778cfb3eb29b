import Foundation
import MerchantKeys
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import OfflineLedger
@testable import SQLiteLedger

/// Moves between two ledgers with common or contradictory contents.
@Suite("Merging two ledgers")
struct MoveRulesTests {
    private static let now = LedgerFixture.noon
    private static let sooner = now.addingTimeInterval(60)
    private static let later = now.addingTimeInterval(3600)

    private static func record(_ state: KeyState, _ cutOff: Date? = nil) -> KeyRecord {
        LedgerFixture.record(LedgerFixture.hash(1), state: state, cutOff: cutOff)
    }

    @Test(
        "keeps the stricter of a key's two states, whichever side has it",
        arguments: [
            (record(.active), record(.active), record(.active)),
            (record(.active), record(.preActivation), record(.preActivation)),
            (record(.active), record(.deactivated, later), record(.deactivated, later)),
            (record(.active), record(.deactivated), record(.deactivated)),
            (record(.deactivated, sooner), record(.deactivated, later), record(.deactivated, sooner)),
            (record(.deactivated, sooner), record(.deactivated), record(.deactivated)),
            (record(.deactivated, sooner), record(.preActivation), record(.deactivated)),
            (record(.active), record(.suspended), record(.suspended)),
            // The key stays suspended and takes over the other ledger's cut-off. When it is resumed, it is deactivated
            // again.
            (record(.suspended), record(.deactivated, later), record(.suspended, later)),
            (record(.suspended, later), record(.deactivated, sooner), record(.suspended, sooner)),
            (record(.suspended), record(.deactivated), record(.suspended, now)),
            (record(.suspended), record(.compromised), record(.compromised)),
            (record(.suspended, later), record(.compromised), record(.compromised)),
            (record(.compromised), record(.destroyed), record(.destroyed)),
            (record(.active), record(.destroyed), record(.destroyed)),
        ])
    func stricter(one: KeyRecord, other: KeyRecord, becomes: KeyRecord) throws {
        #expect(try one.stricter(with: other, at: Self.now) == becomes)
        #expect(try other.stricter(with: one, at: Self.now) == becomes)
        #expect(try becomes.stricter(with: one, at: Self.later) == becomes, "once more it changes nothing")
    }

    @Test("a Google Pay key that one ledger has as active is active, since sites send it")
    func googlePayKey() throws {
        func key(_ state: KeyState) -> KeyRecord {
            LedgerFixture.record(LedgerFixture.hash(1), state: state, merchant: "BCR2", use: .googlePay)
        }
        #expect(try key(.active).stricter(with: key(.preActivation), at: Self.now) == key(.active))
        #expect(try key(.preActivation).stricter(with: key(.active), at: Self.now) == key(.active))
        #expect(try key(.suspended).stricter(with: key(.preActivation), at: Self.now).state == .suspended)
    }

    /// A copy lacks the releases that were made after it. Without the acceptance, the database would release these
    /// transactions again.
    @Test("moves a file that was restored from a copy only after its acceptance")
    func restored() async throws {
        let fixture = try await MoveFixture()
        try fixture.changeFile(
            "INSERT INTO ledger_meta (name, value) VALUES ('restored_at', '1'), ('restored_end', '7')")
        let refusal = LedgerMoveError.restored(path: fixture.path)
        await #expect(throws: refusal) { _ = try await fixture.move().preview() }
        await #expect(throws: refusal) { _ = try await fixture.move().carryOut() }
        try fixture.changeFile("DELETE FROM ledger_meta WHERE name IN ('restored_at', 'restored_end')")
        #expect(try await fixture.move().carryOut().status == .moved)
    }

    @Test("moves no file with an open renewal, and moves ended ones with their attempts")
    func openRenewal() async throws {
        let fixture = try await MoveFixture()
        try fixture.changeFile(
            """
            INSERT INTO renewal (identifier, merchant_identifier, key_use, algorithm, public_key_hash, state,
                requester_uid, requester_name, started_at, node)
            VALUES (x'0102030405060708', 'merchant.com.example', 'processing', 'EC', x'\(fixture.file.key.hex)', 'open', 0, 'root', 1,
                'node-1')
            """)
        let refusal = LedgerMoveError.openRenewal(path: fixture.path, merchant: "merchant.com.example")
        await #expect(throws: refusal) { _ = try await fixture.move().preview() }
        await #expect(throws: refusal) { _ = try await fixture.move().carryOut() }
        // Its attempt may have led to a certificate, so a later renewal of the key asks a person.
        try fixture.changeFile(
            """
            UPDATE renewal SET state = 'abandoned', ended_at = 2000, request = x'0A', previous_certificate_id = 'OLD';
            INSERT INTO renewal_attempt (identifier, renewal, change, number, target, excluded_nodes, intended_at,
                answered_at, outcome, code, node)
            VALUES (x'0A0B0C0D0E0F0001', x'0102030405060708', 'create', 1, 'IDS0FT1234', 'b,c', 1000, 1500, 'unknown',
                'lost', 'node-1')
            """)
        let before = try await fixture.openFile()
        let renewals = try await before.renewals(of: "merchant.com.example")
        await before.close()
        try #require(renewals.count == 1 && renewals[0].renewal.hasPossibleCreation)
        #expect(try await fixture.move().carryOut().status == .moved)
        let after = try await fixture.openDatabase()
        #expect(try await after.renewals(of: "merchant.com.example") == renewals)
        await after.close()
    }

    @Test("releases on neither side with a key that the stricter side forbids, and notifies other nodes")
    func keyInBoth() async throws {
        let fixture = try await MoveFixture()
        let other = try await fixture.openDatabase(as: "node-2")
        try await other.store(LedgerFixture.record(fixture.file.key, state: .suspended))
        let report = try await fixture.move().carryOut()
        #expect(
            report.differingKeys == [
                .init(
                    publicKeyHash: fixture.file.key, inFile: .active, inDatabase: .suspended, becomes: .suspended)
            ])
        let moved = try await fixture.openDatabase()
        #expect(try await moved.release(fixture.file.request(50)) == .keyNotActive)
        await moved.close()
        await other.close()

        let second = try await MoveFixture { ledger in
            try await ledger.store(LedgerFixture.record(LedgerFixture.hash(1), state: .suspended))
        }
        let active = try await second.openDatabase(as: "node-2")
        try await active.store(LedgerFixture.record(second.file.key))
        #expect(try await active.release(second.file.request(50)) == .released)
        let changes = try await second.database.sql("SELECT change FROM merchant_key")
        #expect(try await second.move().carryOut().differingKeys.first?.becomes == .suspended)
        #expect(try await active.release(second.file.request(51)) == .keyNotActive)
        #expect(try await second.database.sql("SELECT change FROM merchant_key") != changes, "by which others follow")
        await active.close()
    }

    @Test("keeps a transaction claimed that both have claimed, and repeats it for no caller")
    func claimInBoth() async throws {
        let fixture = try await MoveFixture()
        let other = try await fixture.openDatabase(as: "node-2")
        try await other.store(LedgerFixture.record(fixture.file.key))
        // Both ledgers have a claim of transaction 1 by the same caller, and of transaction 2 by different callers.
        // Only the database has transaction 60.
        #expect(try await other.release(fixture.file.request(1)) == .released)
        #expect(try await other.release(fixture.file.request(2, caller: "kiosk")) == .released)
        #expect(try await other.release(fixture.file.request(60)) == .released)
        let planned = try await fixture.move().preview()
        #expect(planned.claimsInBoth == 2, "\(planned)")
        try await fixture.moveKilled(at: .marked)
        #expect(try await fixture.move().carryOut().claimsInBoth == 2)
        let moved = try await fixture.openDatabase()
        for ledger in [moved, other] {
            #expect(try await ledger.release(fixture.file.request(1)) == .replayed)
            #expect(try await ledger.release(fixture.file.request(2)) == .replayed)
            #expect(try await ledger.release(fixture.file.request(2, caller: "kiosk")) == .replayed)
            #expect(try await ledger.release(fixture.file.request(3)) == .repeated)
            #expect(try await ledger.release(fixture.file.request(60)) == .repeated)
        }
        #expect(try await fixture.database.sql("SELECT count(*) FROM claim") == "8")
        for ledger in [moved, other] { await ledger.close() }
    }

    @Test("keeps the later times of the two")
    func times() async throws {
        let fixture = try await MoveFixture()
        try fixture.changeFile(
            "INSERT INTO ledger_meta VALUES ('forgotten_before', '1000'), ('restore_fence', '9000')")
        try await fixture.database.sql("UPDATE ledger_state SET forgotten_before = 5000, restore_fence = 2000")
        let report = try await fixture.move().carryOut()
        #expect(report.forgottenBefore == Date(timeIntervalSince1970: 5))
        #expect(report.restoreFence == Date(timeIntervalSince1970: 9))
        #expect(
            try await fixture.database.sql("SELECT forgotten_before, restore_fence FROM ledger_state") == "5000|9000")
    }

    /// Each refusal leaves both sides unchanged.
    private func expectRefused(
        _ fixture: MoveFixture, to url: PostgreSQLURL? = nil, _ words: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let before = try await fixture.rows()
        let file = try Data(contentsOf: URL(filePath: fixture.path))
        for dry in [true, false] {
            let error = await #expect(throws: LedgerMoveError.self, sourceLocation: sourceLocation) {
                let move = try fixture.move(to: url)
                _ = dry ? try await move.preview() : try await move.carryOut()
            }
            #expect("\(try #require(error))".contains(words), sourceLocation: sourceLocation)
        }
        #expect(try await fixture.rows() == before, sourceLocation: sourceLocation)
        #expect(try Data(contentsOf: URL(filePath: fixture.path)) == file, sourceLocation: sourceLocation)
        #expect(try await fixture.database.sql("SELECT count(*) FROM moved_ledger") == "0")
    }

    @Test("refuses while a daemon runs on the file, or under its node's name in the database")
    func inUse() async throws {
        let fixture = try await MoveFixture()
        let file = try await fixture.openFile()
        try await expectRefused(fixture, "Another process uses the ledger")
        await file.close()
        let database = try await fixture.openDatabase()
        try await expectRefused(fixture, "A daemon is node node-1")
        await database.close()
    }

    @Test("refuses a node name that already has records in the database")
    func nodeKnown() async throws {
        let fixture = try await MoveFixture()
        let database = try await fixture.openDatabase()
        _ = try await fixture.file.releasing(70)(database)
        await database.close()
        try await expectRefused(fixture, "Two chains cannot be merged")
    }

    @Test(
        "refuses a record that was changed, cut or rewritten in the file",
        arguments: [
            "UPDATE audit_record SET line = CAST(replace(CAST(line AS TEXT), 'primary', 'another') AS BLOB) WHERE sequence = 3",
            "UPDATE audit_record SET hash = zeroblob(32) WHERE sequence = 7",
            "DELETE FROM audit_record WHERE sequence = 2", "DELETE FROM audit_record WHERE sequence = 7",
            // A column of this record contradicts its line.
            "UPDATE audit_record SET event = 'verify' WHERE sequence = 7",
            "UPDATE audit_record SET caller = 'another' WHERE sequence = 7",
            "UPDATE audit_record SET time = time + 1 WHERE sequence = 7",
            "UPDATE audit_record SET transaction_id = zeroblob(32) WHERE sequence = 7",
            "DELETE FROM audit_key", "UPDATE audit_record SET node = 'node-2' WHERE sequence = 7",
            "UPDATE checkpoint SET line = (SELECT line FROM checkpoint WHERE sequence = 4) WHERE sequence = 7",
        ])
    func brokenChain(statement: String) async throws {
        let fixture = try await MoveFixture()
        try fixture.changeFile(statement)
        try await expectRefused(fixture, "is incomplete or damaged, so nothing was moved")
    }

    @Test("refuses other schemas than the present one on either side, and files that are no ledger")
    func schemas() async throws {
        let fixture = try await MoveFixture()
        try fixture.changeFile("UPDATE ledger_meta SET value = '2' WHERE name = 'schema_version'")
        try await expectRefused(fixture, "has schema 2, and only schema \(SQLiteTables.version) is moved")
        try fixture.changeFile("UPDATE ledger_meta SET value = '99' WHERE name = 'schema_version'")
        try await expectRefused(fixture, "has schema 99")
        try fixture.changeFile(
            "UPDATE ledger_meta SET value = '\(SQLiteTables.version)' WHERE name = 'schema_version'")
        try fixture.changeFile("DELETE FROM ledger_meta WHERE name = 'node'")
        try await expectRefused(fixture, "is not a ledger of paytokend")
        try fixture.changeFile("INSERT INTO ledger_meta VALUES ('node', 'node-1')")
        for (version, words) in [(1, "needs schema"), (99, "has schema 99")] {
            try await fixture.database.sql("UPDATE ledger_state SET schema_version = \(version)")
            try await expectRefused(fixture, words)
        }
    }

    @Test("refuses a file of another kind, a missing one, and one that other accounts can read")
    func files() async throws {
        let fixture = try await MoveFixture()
        let directory = try FreshDirectory()
        let url = try fixture.database.url(as: LedgerDatabases.owner)
        func refusal(_ path: String) async -> String {
            do throws(LedgerMoveError) {
                _ = try await LedgerMove(path: path, url: url, passwordFile: nil, version: "1").carryOut()
                return ""
            } catch {
                return error.description
            }
        }
        #expect(await refusal(directory.path("none")).contains("There is no file"))
        #expect(!FileManager.default.fileExists(atPath: directory.path("none")), "and none was made")
        #expect(await refusal(try directory.write("hello", to: "text", mode: 0o600)).contains("is not a ledger"))
        #expect(await refusal(try directory.write("", to: "empty", mode: 0o600)).contains("is not a ledger"))
        let open = directory.path("open")
        try FileManager.default.copyItem(atPath: fixture.path, toPath: open)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: open)
        #expect(await refusal(open).contains("can be used by others"))
    }

    @Test("lets only the account that owns the schema move a ledger")
    func rights() async throws {
        let fixture = try await MoveFixture()
        for user in [LedgerDatabases.daemon, PostgreSQLServer.superuser] {
            try await expectRefused(fixture, to: fixture.database.url(as: user), "belongs to another role")
        }
    }

    @Test("names a key that has another merchant or algorithm in the database")
    func keyConflict() async throws {
        let fixture = try await MoveFixture()
        let other = try await fixture.openDatabase(as: "node-2")
        try await other.store(LedgerFixture.record(fixture.file.key, merchant: "merchant.com.other"))
        await other.close()
        try await expectRefused(fixture, "The key \(fixture.file.key.hex) is in both ledgers")
    }

    @Test(
        "refuses to move a file to a second database",
        arguments: [
            LedgerMoveMoment.marked, .accepted, .done,
        ])
    func elsewhere(after moment: LedgerMoveMoment) async throws {
        let fixture = try await MoveFixture()
        try await fixture.moveKilled(at: moment)
        let server = try fixture.database.url().server
        let other = try await MoveFixture()
        // The test's database is a copy of the template and has the template's identity. It receives a new one, as a
        // created database has.
        try await other.database.sql("UPDATE ledger_state SET identity = gen_random_uuid()::text")
        let elsewhere = LedgerMoveError.elsewhere(path: fixture.path, server: server)
        let url = try other.database.url(as: LedgerDatabases.owner)
        await #expect(throws: elsewhere) { try await fixture.move(to: url).carryOut() }
        await #expect(throws: elsewhere) { try await fixture.move(to: url).giveUp() }
        #expect(try await other.database.sql("SELECT count(*) FROM moved_ledger") == "0")
    }
}
