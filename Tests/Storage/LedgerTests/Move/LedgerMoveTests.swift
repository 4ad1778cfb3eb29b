import AccessControl
import AuditChain
import Foundation
import Locks
import MerchantKeys
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import OfflineLedger

/// Moves of a host's ledger file into a node of a database. A move is complete and happens once, and file and database
/// never serve at the same time.
@Suite("Moving a ledger into a database")
struct LedgerMoveTests {
    @Test("moves record, checkpoints, claims, keys, approvals and times, and continues the node")
    func whole() async throws {
        let (noon, key) = (LedgerFixture.noon, LedgerFixture.hash(9))
        let approval = Approval(
            identifier: .random(), operation: .keyDestroy, parameters: .of("p".utf8), key: key, keyState: .suspended,
            requester: ApprovalRequester(
                person: PersonIdentities(uid: 1001, loginUID: 2002, account: "alice", loginAccount: "alice.admin"),
                name: "alice", gid: 100, groups: [7, 8]),
            reason: AuditReason("rotation"), requestedAt: noon, expires: noon.addingTimeInterval(3600))
        let fixture = try await MoveFixture { ledger in
            try await ledger.store(LedgerFixture.record(key, state: .suspended, cutOff: noon))
            try await ledger.apply(AdministrativeChange(at: noon, approval: .request(approval), records: []))
        }
        try fixture.changeFile(
            """
            INSERT INTO ledger_meta VALUES ('forgotten_before', '1000'), ('restore_fence', '2000'),
                ('signed_ahead', '70000'), ('clock_accepted_after', '3')
            """)
        let planned = try await fixture.move().preview()
        #expect(planned.status == .possible && planned.records == 7 && planned.claims == 7, "\(planned)")
        #expect(planned.keys == 2 && planned.approvals == 1 && planned.checkpoints == 2, "\(planned)")
        #expect(try await fixture.database.sql("SELECT count(*) FROM moved_ledger") == "0", "a look changes nothing")
        await (try await fixture.openFile()).close()

        let progress = LedgerMoveProgressSeen()
        let report = try await fixture.move().carryOut { progress.add($0) }
        #expect(report.status == .moved && report.node == "node-1" && report.claimsInBoth == 0, "\(report)")
        #expect(progress.all.contains(.copied(records: 7, of: 7)) && progress.all.contains(.claims(7, of: 7)))
        #expect(
            try await fixture.database.sql(
                """
                SELECT forgotten_before, restore_fence, signed_ahead, clock_accepted_after, version
                FROM ledger_state, node
                """) == "1000|2000|70000|3|1.2.3")
        let ledger = try await fixture.openDatabase()
        #expect(try await ledger.keyRecord(key) == LedgerFixture.record(key, state: .suspended, cutOff: noon))
        var kept = approval
        kept.node = "node-1"
        #expect(try await ledger.approvals(limit: 5) == [kept])
        await ledger.close()
        try await fixture.expectMoved()
        // A second run of the move changes nothing.
        let before = try await fixture.rows()
        #expect(try await fixture.move().carryOut().status == .moved)
        #expect(try await fixture.rows() == before)
    }

    @Test(
        "loses nothing when interrupted at any moment, lets one side serve at most, and completes at the repeat",
        arguments: LedgerMoveMoment.allCases)
    func brokenOff(at moment: LedgerMoveMoment) async throws {
        let fixture = try await MoveFixture()
        try await fixture.moveKilled(at: moment)
        let server = try fixture.database.url().server
        switch moment {
        case .checked:
            await (try await fixture.openFile()).close()
        case .begun, .recordsCopied, .claimsCopied:
            // The file serves until the move is complete. A daemon that opens the node in the database receives an
            // error with instructions, and blocks no other daemon.
            let file = try await fixture.openFile()
            #expect(try await file.release(fixture.file.request(1)) == .repeated)
            await file.close()
            try await expectKeptOut(fixture)
        case .marked, .accepting:
            await #expect(throws: LedgerOpeningError.moveUnfinished(path: fixture.path, server: server)) {
                try await fixture.openFile()
            }
            try await expectKeptOut(fixture)
        case .accepted:
            await #expect(throws: LedgerOpeningError.moveUnfinished(path: fixture.path, server: server)) {
                try await fixture.openFile()
            }
            await (try await fixture.openDatabase()).close()
        case .done:
            await #expect(throws: LedgerOpeningError.self) { try await fixture.openFile() }
        }
        #expect(try await fixture.move().carryOut().status == .moved)
        try await fixture.expectMoved()
    }

    private func expectKeptOut(_ fixture: MoveFixture) async throws {
        let error = await #expect(throws: LedgerOpeningError.self) { try await fixture.openDatabase() }
        #expect("\(try #require(error))".contains("Repeat the move"))
        let other = try await fixture.openDatabase(as: "node-2")
        #expect(try await other.releaseStatus().holds.isEmpty)
        await other.close()
    }

    @Test("moves both names of a Google Pay message, so that no other message with its messageId is released")
    func googlePay() async throws {
        let fixture = try await MoveFixture { ledger in
            try await ledger.store(
                LedgerFixture.record(GooglePayClaimTests.key, merchant: "BCR2DN4TEXAMPLE", use: .googlePay))
        }
        let file = try await fixture.openFile()
        #expect(try await file.release(GooglePayClaimTests.message(1, messageId: 1)) == .released)
        await file.close()
        #expect(try await fixture.move().carryOut().status == .moved)
        let moved = try await fixture.openDatabase()
        #expect(try await moved.release(GooglePayClaimTests.message(1, messageId: 1)) == .repeated)
        #expect(try await moved.release(GooglePayClaimTests.message(2, messageId: 1)) == .replayed)
        #expect(try await moved.release(GooglePayClaimTests.message(2, messageId: 2)) == .released)
        await moved.close()
    }

    @Test("moves the names of attempts, so that the next one follows the file's last release and no other")
    func namedAttempts() async throws {
        let fixture = try await MoveFixture()
        let ledger = try await fixture.openFile()
        #expect(try await ledger.release(fixture.file.request(8, named: NamedAttempt(1))) == .released)
        #expect(try await ledger.release(fixture.file.request(9, named: NamedAttempt(1))) == .released)
        #expect(try await ledger.release(fixture.file.request(9, named: NamedAttempt(2, after: [1]))) == .repeated)
        await ledger.close()
        #expect(try await fixture.move().carryOut().status == .moved)
        let moved = try await fixture.openDatabase()
        #expect(try await moved.release(fixture.file.request(8, named: NamedAttempt(3))) == .releasedByOther)
        #expect(try await moved.release(fixture.file.request(8, named: NamedAttempt(3, after: [1]))) == .repeated)
        #expect(
            try await moved.release(fixture.file.request(9, named: NamedAttempt(3, after: [1]))) == .releasedByOther)
        #expect(try await moved.release(fixture.file.request(9, named: NamedAttempt(3, after: [2]))) == .repeated)
        await moved.close()
    }

    @Test("moves at the repeat what the file served after an interrupted move")
    func servedBetween() async throws {
        let fixture = try await MoveFixture()
        try await fixture.moveKilled(at: .claimsCopied)
        let file = try await fixture.openFile()
        for number in 8...9 { _ = try await fixture.file.releasing(number)(file) }
        try await fixture.signer.seal(file)
        let export = try await MoveFixture.export(of: file)
        await file.close()
        #expect(try await fixture.move().carryOut().records == 9)
        let ledger = try await fixture.openDatabase()
        #expect(try await MoveFixture.export(of: ledger) == export)
        #expect(try await ledger.release(fixture.file.request(9, reference: 8)) == .replayed)
        await ledger.close()
    }

    @Test("seals a record that was copied unsealed with what the repeat brings")
    func sealedBetween() async throws {
        let fixture = try await MoveFixture()
        let unsealed = try await fixture.openFile()
        _ = try await fixture.file.releasing(8)(unsealed)
        await unsealed.close()
        try await fixture.moveKilled(at: .claimsCopied)
        #expect(try await fixture.database.sql("SELECT max(sequence) FROM audit_record") == "8")
        let file = try await fixture.openFile()
        try await fixture.signer.seal(file)
        let export = try await MoveFixture.export(of: file)
        await file.close()
        #expect(try await fixture.move().carryOut().checkpoints == 3)
        let ledger = try await fixture.openDatabase()
        #expect(try await MoveFixture.export(of: ledger) == export)
        #expect(try await fixture.signer.verdict(of: ledger).intactRecords == 8)
        await ledger.close()
    }

    @Test(
        "finds out at the repeat about a commit that was lost, or whose acknowledgement was lost",
        arguments: [
            PostgreSQLProxy.Fault.loseAcknowledgement(then: .none), .loseCommit(then: .none),
        ])
    func doubt(fault: PostgreSQLProxy.Fault) async throws {
        let fixture = try await MoveFixture()
        let proxy = try await PostgreSQLProxy(to: fixture.database.server)
        let url = try PostgreSQLURL(proxy.url(fixture.database.name, user: LedgerDatabases.owner))
        let error = await #expect(throws: LedgerMoveError.self) {
            try await fixture.move(to: url) { if $0 == .accepting { proxy.fault = fault } }.carryOut()
        }
        #expect("\(try #require(error))".contains("it is unknown whether the database has accepted the node"))
        #expect(proxy.cuts == 1)
        await #expect(throws: LedgerOpeningError.self) { try await fixture.openFile() }
        #expect(try await fixture.move().carryOut().status == .moved)
        try await fixture.expectMoved()
    }

    @Test("survives a connection that breaks while records or claims are copied", arguments: [1, 3, 6])
    func connectionLost(commits: Int) async throws {
        let fixture = try await MoveFixture()
        let proxy = try await PostgreSQLProxy(to: fixture.database.server)
        let url = try PostgreSQLURL(proxy.url(fixture.database.name, user: LedgerDatabases.owner))
        let seen = LedgerMoveProgressSeen()
        let move = try fixture.move(to: url) { moment in
            guard moment == .recordsCopied || moment == .claimsCopied else { return }
            if seen.count() == commits { proxy.fault = .loseAcknowledgement(then: .none) }
        }
        await #expect(throws: LedgerMoveError.self) { try await move.carryOut() }
        #expect(try await fixture.move().carryOut().status == .moved)
        try await fixture.expectMoved()
    }

    @Test(
        "ends with a sentence when the server's disk is full, and continues at the repeat",
        arguments: ["audit_record", "claim", "moved_ledger", "node"])
    func fullDisk(table: String) async throws {
        let fixture = try await MoveFixture()
        try await fixture.database.sql(
            """
            CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$;
            CREATE TRIGGER full_disk BEFORE INSERT ON \(table) FOR EACH ROW EXECUTE FUNCTION full_disk()
            """)
        let error = await #expect(throws: LedgerMoveError.self) { try await fixture.move().carryOut() }
        let said = "\(try #require(error))"
        #expect(said.contains("the disk is full") && said.contains("Repeat the command"), "\(said)")
        try await fixture.database.sql("DROP FUNCTION full_disk() CASCADE")
        #expect(try await fixture.move().carryOut().status == .moved)
        try await fixture.expectMoved()
    }

    @Test("changes nothing any more in a program that was stopped while another continued the move")
    func overtaken() async throws {
        let fixture = try await MoveFixture()
        // The first program is still running. The second one moves a copy of the file, which the first program's lock
        // does not cover, as on two hosts that share the file.
        let copy = fixture.path + ".copy"
        let error = await #expect(throws: LedgerMoveError.self) {
            try await fixture.move { moment in
                guard moment == .begun else { return }
                try FileManager.default.copyItem(atPath: fixture.path, toPath: copy)
                let database = try MoveDestination(
                    fixture.database.url(as: LedgerDatabases.owner), passwordFile: nil)
                try database.begin(#require(AuditNode("node-1"))) { _ in }
            }.carryOut()
        }
        #expect(error == .overtaken(node: "node-1"))
        #expect(try await fixture.database.sql("SELECT count(*) FROM audit_record") == "0")
        #expect(try await fixture.move().carryOut().status == .moved)
        try await fixture.expectMoved()
    }

    @Test("serves from the file again when given up before the database accepted it, and can move it later")
    func givenUp() async throws {
        let fixture = try await MoveFixture()
        #expect(try await fixture.move().giveUp().status == .givenUp, "nothing to give up is no error")
        try await fixture.moveKilled(at: .accepting)
        #expect(try await fixture.move().giveUp().status == .givenUp)
        let file = try await fixture.openFile()
        #expect(try await MoveFixture.export(of: file) == fixture.export)
        #expect(try await file.release(fixture.file.request(1, reference: 8)) == .replayed)
        await file.close()
        #expect(try await fixture.database.sql("SELECT count(*) FROM audit_record") == "0")
        #expect(try await fixture.database.sql("SELECT count(*) FROM claim") == "7", "these were released")
        #expect(try await fixture.move().carryOut().status == .moved)
        try await fixture.expectMoved()
    }

    @Test("refuses to give up what the database has accepted", arguments: [LedgerMoveMoment.accepted, .done])
    func notGivenUp(after moment: LedgerMoveMoment) async throws {
        let fixture = try await MoveFixture()
        try await fixture.moveKilled(at: moment)
        let accepted = LedgerMoveError.accepted(path: fixture.path, server: try fixture.database.url().server)
        await #expect(throws: accepted) { try await fixture.move().giveUp() }
        #expect(try await fixture.move().carryOut().status == .moved)
        try await fixture.expectMoved()
    }

    @Test("refuses a name that a daemon has in the database, and takes one that was given back without a record")
    func nameGivenBack() async throws {
        let fixture = try await MoveFixture()
        let early = try await fixture.openDatabase()
        await #expect(throws: LedgerMoveError.nodeInUse(node: "node-1", server: try fixture.database.url().server)) {
            try await fixture.move().carryOut()
        }
        await early.close()
        #expect(try await fixture.move().carryOut().status == .moved)
        try await fixture.expectMoved()
    }
}

/// The progress that a move reported.
final class LedgerMoveProgressSeen: Sendable {
    private let state = Mutex<(progress: [LedgerMoveProgress], calls: Int)>(([], 0))

    func add(_ progress: LedgerMoveProgress) { state.withLock { $0.progress.append(progress) } }
    var all: [LedgerMoveProgress] { state.withLock { $0.progress } }

    /// The number of calls, including this one.
    func count() -> Int {
        state.withLock {
            $0.calls += 1
            return $0.calls
        }
    }
}
