import AccessControl
import AuditChain
import DatabaseKit
import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

@Suite("A PostgreSQL ledger that is older than a node remembers")
struct HoldTests {
    private static let finding = LedgerHold.Finding(
        kind: .rolledBack, ledgerSequence: 3,
        remembered: .init(sequence: 9, hash: .of([9]), time: AuditTime(LedgerFixture.noon)))

    /// Makes two nodes that have reported their signing-time windows.
    private func nodes() async throws -> (fixture: PostgreSQLFixture, other: PostgreSQLLedger) {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        try await fixture.ledger.update(widestWindow: .seconds(300))
        try await other.update(widestWindow: .seconds(60))
        return (fixture, other)
    }

    private func change(_ restore: AdministrativeChange.Restore) -> AdministrativeChange {
        var change = AdministrativeChange(
            at: LedgerFixture.noon,
            records: [
                AuditRecord(
                    time: AuditTime(LedgerFixture.noon),
                    event: .ledgerAcceptRestore(
                        LedgerRestore(ledgerSequence: 3, hsmTokenSequence: 9, reason: AuditReason("restored"))))
            ])
        change.restore = restore
        return change
    }

    @Test("holds all nodes for one node's finding, over restarts, until its acceptance, which that node takes up")
    func held() async throws {
        let (fixture, other) = try await nodes()
        #expect(try await fixture.release(1).verdict == .released)
        try await other.hold(Self.finding)
        let answer = try await fixture.release(2)
        #expect(answer.verdict == .held && answer.sequence == 2, "recorded as a refusal")
        #expect(try await fixture.release(1).verdict == .held, "no repeat either")
        #expect(try await fixture.count("claim") == 1)
        let failure = await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
        #expect("\(failure, default: "")".contains("Found on node-2: its last record is 3, although record 9 of"))
        // A hold stops releases only. Records are still written.
        _ = try await fixture.ledger.append(AuditRecord(time: AuditTime(LedgerFixture.noon), event: .stop))

        await other.close()
        let again = try await fixture.node("node-2")
        #expect(try await fixture.release(3, on: again).verdict == .held)
        let holds = try await again.releaseStatus().holds
        #expect(holds.map(\.node) == ["node-2"] && holds.first?.finding == Self.finding)

        try await fixture.ledger.apply(change(.accept(holds, newestRelease: nil, approval: nil)))
        let status = try await again.releaseStatus()
        #expect(status.holds.isEmpty && status.accepted?.acceptedOn == "node-1" && status.obstacle == nil)
        #expect(try await fixture.ledger.releaseStatus().accepted == nil, "it is the other node's")
        #expect(try await fixture.release(4, on: again).verdict == .released)
        #expect(try await fixture.release(5).verdict == .released)
        try await again.apply(change(.endOwnHold))
        #expect(try await again.releaseStatus().accepted == nil)
        #expect(try await again.releaseStatus().holds.isEmpty)
        await again.close()
    }

    @Test("accepts the findings of both nodes as shown, with the widest window of all")
    func atOnce() async throws {
        let (fixture, other) = try await nodes()
        async let first: Void = fixture.ledger.hold(.init(kind: .lost, ledgerSequence: 0, remembered: nil))
        async let second: Void = other.hold(Self.finding)
        _ = try await (first, second)
        let holds = try await other.releaseStatus().holds
        #expect(holds.map(\.node) == ["node-1", "node-2"])
        for shown in [Array(holds.prefix(1)), [], holds + holds.prefix(1)] {
            await #expect(throws: LedgerFailure.holdsConflict) {
                try await other.apply(change(.accept(shown, newestRelease: nil, approval: nil)))
            }
        }
        #expect(try await other.head().sequence == 0)
        #expect(try await other.times().restoreFence == nil)
        #expect(try await fixture.release(1).verdict == .held)
        let before = Date()
        try await other.apply(change(.accept(holds.reversed(), newestRelease: nil, approval: nil)))
        let fence = try #require(try await fixture.ledger.times().restoreFence)
        #expect(fence >= before + 300)
        #expect(try await fixture.release(1).verdict == .released)
        await other.close()
    }

    @Test("accepts nothing while any node's window is off, or unreported since the upgrade")
    func windowOff() async throws {
        let (fixture, other) = try await nodes()
        try await other.hold(Self.finding)
        let holds = try await other.releaseStatus().holds
        try await fixture.ledger.update(widestWindow: nil)
        let third = try await fixture.node("node-3")
        await #expect(throws: LedgerFailure.windowOff(nodes: ["node-1", "node-3"])) {
            try await other.apply(change(.accept(holds, newestRelease: nil, approval: nil)))
        }
        #expect(try await fixture.release(1).verdict == .held)
        for ledger in [other, third] { await ledger.close() }
    }

    @Test(
        "lets the daemon's role end a hold only by an acceptance that is in its record",
        arguments: [
            "UPDATE ledger_state SET held_since = NULL", "UPDATE ledger_state SET restore_fence = 0",
            "UPDATE ledger_state SET system_identifier = '1'", "DELETE FROM hold", "UPDATE hold SET accepted_at = 1",
            "INSERT INTO hold VALUES ('node-3', 'lost', 0, NULL, NULL, NULL, NULL, 1, 1, 'node-1')",
            "UPDATE node SET timeline = 7", "INSERT INTO key_holder VALUES ('node-1', '\\x00', 1)",
            "DELETE FROM key_holder", "SELECT require_node('node-1', 1)",
        ])
    func leastRights(statement: String) async throws {
        let (fixture, other) = try await nodes()
        try await other.hold(Self.finding)
        let daemon = try await fixture.database.session(as: LedgerDatabases.daemon)
        let failure = await #expect(throws: PostgreSQLFailure.self) { try await daemon.run(statement) }
        #expect(failure == .refused(.insufficientPrivilege, statement: 0))
        await other.close()
    }

    @Test("refuses an acceptance without its record or its approval, or with an earlier fence")
    func acceptanceAlone() async throws {
        let (fixture, other) = try await nodes()
        try await other.hold(Self.finding)
        let holds = try await other.releaseStatus().holds
        let daemon = try await fixture.database.session(as: LedgerDatabases.daemon)
        let later = "9100000000000"
        func accept(_ record: Int, _ approval: String, _ fence: String, by fencingNumber: Int = 1) -> String {
            "SELECT accept_restore('node-1', \(fencingNumber), \(record), \(approval), \(fence), '{node-2}', '{9000000000000}')"
        }
        let sequence = try await fixture.ledger.append(
            AuditRecord(time: AuditTime(LedgerFixture.noon), event: .stop))
        for statement in [
            accept(sequence, "NULL", later), accept(0, "NULL", later), accept(sequence, "'\\x01'", later),
            accept(sequence, "NULL", later, by: 7), "SELECT end_hold('node-2', 1, 1)",
        ] {
            await #expect(throws: PostgreSQLFailure.self, "\(statement)") { try await daemon.run(statement) }
        }
        // Acceptances that have a record, but are too early or name an approval that does not exist.
        let recorded = try await fixture.ledger.apply(
            AdministrativeChange(at: LedgerFixture.noon, records: change(.endOwnHold).records))
        for statement in [accept(recorded[0], "NULL", "1"), accept(recorded[0], "'\\x0102030405060708'", later)] {
            await #expect(throws: PostgreSQLFailure.self, "\(statement)") { try await daemon.run(statement) }
        }
        #expect(try await fixture.ledger.releaseStatus().holds == holds)
        #expect(try await fixture.release(1).verdict == .held)
        await other.close()
    }

    @Test("compares a fence with the present clock, however long its transaction was open")
    func openTransaction() async throws {
        let (fixture, other) = try await nodes()
        try await other.hold(Self.finding)
        let found = try #require(try await other.releaseStatus().holds.first?.foundAt)
        let recorded = try await fixture.ledger.apply(
            AdministrativeChange(at: LedgerFixture.noon, records: change(.endOwnHold).records))
        let daemon = try await fixture.database.session(as: LedgerDatabases.daemon)
        func accept(fence: String) -> String {
            "SELECT accept_restore('node-1', 1, \(recorded[0]), NULL, \(fence), '{node-2}', '{\(StoredTime.milliseconds(found))}')"
        }
        try await fixture.database.sql(
            "CREATE OR REPLACE FUNCTION acceptance_time() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'",
            as: LedgerDatabases.owner)
        try await daemon.run("BEGIN")
        try await fixture.database.sql("SELECT pg_sleep(0.05)")
        let failure = await #expect(throws: PostgreSQLFailure.self) {
            try await daemon.run(
                accept(fence: "floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint + 300000"))
        }
        #expect("\(try #require(failure))".contains("P0001"))
        try await daemon.run("ROLLBACK")
        let later = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + 3600000"
        #expect(try await daemon.run(accept(fence: later)).first?.boolean(0) == true)
        await other.close()
    }

    @Test("refuses an acceptance as a whole if its approval is another operation's, or not done")
    func approval() async throws {
        let (fixture, other) = try await nodes()
        try await other.hold(Self.finding)
        let approval = ApprovalIdentifier.random()
        await #expect(throws: LedgerFailure.self) {
            try await other.apply(
                change(.accept(other.releaseStatus().holds, newestRelease: nil, approval: approval)))
        }
        #expect(try await other.head().sequence == 0)
        #expect(try await fixture.release(1).verdict == .held)
        // The second person's approval and the acceptance are one transaction.
        let request = Approval(
            identifier: approval, operation: .ledgerAcceptRestore, parameters: .of([1]), key: nil, keyState: nil,
            requester: ApprovalRequester(person: PersonIdentities(uid: 1001), name: "staff", gid: 1, groups: []),
            reason: AuditReason("restored"), requestedAt: LedgerFixture.noon, expires: LedgerFixture.noon + 60)
        var asking = AdministrativeChange(at: LedgerFixture.noon, records: [])
        asking.approval = .request(request)
        try await other.apply(asking)
        let holds = try await other.releaseStatus().holds
        var accepting = change(.accept(holds, newestRelease: nil, approval: approval))
        accepting.approval = .approve(approval, by: PersonIdentities(uid: 1002), executes: true)
        try await other.apply(accepting)
        #expect(try await fixture.release(1).verdict == .released)
        await other.close()
    }

    @Test("notices while it runs that the database became older, and holds all nodes")
    func restoredBeneath() async throws {
        let (fixture, other) = try await nodes()
        for number in 1...3 { _ = try await fixture.release(number) }
        // An incomplete failover loses the last records and their claims.
        try await fixture.database.sql("DELETE FROM audit_record WHERE sequence > 1; DELETE FROM claim")
        // The daemon detects the loss with this batch, unless it already did when it renewed its lease.
        let found = try await fixture.begin(2).value()
        #expect(found.isUnavailable || (try? found.get().verdict) == .held, "\(found)")
        let holds = try await other.releaseStatus().holds
        #expect(holds.first?.finding.kind == .rolledBack && holds.first?.finding.ledgerSequence == 1)
        #expect(holds.first?.finding.remembered?.sequence == 3)
        #expect(fixture.events.all.contains { if case .held = $0 { true } else { false } })
        #expect(try await fixture.release(2, on: other).verdict == .held)
        // The daemon continues from the current records, so that it can record the acceptance.
        let refused = try await fixture.release(4)
        #expect(refused.verdict == .held && refused.sequence != nil)
        try await fixture.ledger.apply(change(.accept(holds, newestRelease: nil, approval: nil)))
        #expect(try await fixture.release(5).verdict == .released)
        await other.close()
    }

    @Test(
        "notices that the database became older during a doubt, and neither answers nor repeats the commit in doubt",
        arguments: [true, false])
    func restoredInDoubt(hasArrived: Bool) async throws {
        let (fixture, other) = try await nodes()
        for number in 1...3 { _ = try await fixture.release(number) }
        fixture.proxy.fault = hasArrived ? .loseAcknowledgement(then: .refuse) : .loseCommit(then: .refuse)
        let inDoubt = fixture.begin(4)
        try await wait(for: "the cut") { fixture.proxy.cuts == 1 }
        try await fixture.database.sql("DELETE FROM audit_record WHERE sequence > 1; DELETE FROM claim")
        fixture.proxy.fault = .none
        let found = try await inDoubt.value()
        #expect(found.isUnavailable || (try? found.get().verdict) == .held, "\(found)")
        #expect(try await other.releaseStatus().holds.first?.finding.kind == .rolledBack)
        #expect(try await fixture.count("claim") == 0)
        await other.close()
    }

    @Test("notices another record in place of the last one, and takes additional records for no restore")
    func forkedBeneath() async throws {
        let (fixture, other) = try await nodes()
        for number in 1...2 { _ = try await fixture.release(number) }
        let copy = """
            INSERT INTO audit_record (node, sequence, time, event, outcome, hash, line)
            SELECT node, sequence + 1, time, event, outcome, sha256(line), line FROM audit_record WHERE sequence = 2
            """
        try await fixture.database.sql(copy)
        #expect(try await fixture.begin(3).value().isUnavailable)
        #expect(try await other.releaseStatus().holds.isEmpty)
        try await fixture.database.sql(
            "DELETE FROM audit_record WHERE sequence = 3; UPDATE audit_record SET hash = sha256(hash) WHERE sequence = 2"
        )
        let found = try await fixture.begin(3).value()
        #expect(found.isUnavailable || (try? found.get().verdict) == .held, "\(found)")
        #expect(try await other.releaseStatus().holds.first?.finding.kind == .forked)
        await other.close()
    }

    @Test("holds on a database from before its start, instead of taking it for another daemon of its name")
    func fencingNumberBehind() async throws {
        let (fixture, other) = try await nodes()
        await other.close()
        let again = try await fixture.node("node-2")
        #expect(again.lease?.fencingNumber == 2)
        try await fixture.database.sql("UPDATE node SET fence = 1 WHERE name = 'node-2'")
        let answer = try await fixture.begin(1, on: again).value()
        #expect(answer.isUnavailable && "\(answer)".contains("restart the daemon"), "\(answer)")
        let holds = try await fixture.ledger.releaseStatus().holds
        #expect(holds.map(\.node) == ["node-2"])
        #expect(again.lease?.isLost == true)
        // The node finds the same fault again at each batch, but the hold does not change. An operator can therefore
        // accept the hold that was shown, and it stays accepted.
        #expect(try await fixture.begin(2, on: again).value().isUnavailable)
        #expect(try await fixture.ledger.releaseStatus().holds == holds)
        try await fixture.ledger.apply(change(.accept(holds, newestRelease: nil, approval: nil)))
        #expect(try await fixture.begin(3, on: again).value().isUnavailable)
        #expect(try await fixture.release(4).verdict == .released)
        await again.close()
    }
}

@Suite("A PostgreSQL ledger on another server than before")
struct ChangedServerTests {
    /// Changes the stored server of the last comparison. The database then seems to be on another server, as after a
    /// promotion, a point-in-time restore or a dump.
    private func moveServer(_ fixture: PostgreSQLFixture, _ change: String) async throws {
        try await fixture.database.sql("UPDATE ledger_state SET \(change); UPDATE node SET \(change)")
    }

    @Test(
        "releases nothing until every node with a live lease has compared",
        arguments: ["timeline = 77", "system_identifier = '1'"])
    func compares(change: String) async throws {
        let fixture = try await PostgreSQLFixture()
        let (second, third) = (try await fixture.node("node-2"), try await fixture.node("node-3"))
        for node in [fixture.ledger, second, third] { #expect(try await node.confirm(remembered: nil) == .continues) }
        #expect(try await fixture.release(1).verdict == .released)
        try await moveServer(fixture, change)
        #expect(try await fixture.release(2).verdict == .held)
        #expect(try await fixture.release(1).verdict == .held)
        #expect(try await fixture.ledger.confirm(remembered: nil) == .continues)
        #expect(try await fixture.release(2).verdict == .held)
        let status = try await fixture.ledger.releaseStatus()
        #expect(status.isServerChanged && status.hasCompared && status.comparing == ["node-2", "node-3"])
        let failure = await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
        #expect("\(failure, default: "")".contains("not yet: node-2, node-3"))
        #expect(try await fixture.ledger.serverStatus()?.warnings.isEmpty == true)
        await third.close()
        let warnings = try #require(try await fixture.ledger.serverStatus()?.warnings)
        #expect(warnings.count == 1 && warnings.first?.hasPrefix("Node node-3 is down") == true)
        #expect(try await second.confirm(remembered: nil) == .continues)
        #expect(try await second.releaseStatus().isServerChanged == false)
        for node in [fixture.ledger, second] { #expect(try await fixture.release(3, on: node).verdict != .held) }
        #expect(try await fixture.count("claim") == 2)
        await second.close()
    }

    @Test("waits for a running node whose lease had ended in a restored copy, and for no node that returned its lease")
    func endedLeases() async throws {
        // No node renews its lease by itself during the test.
        let fixture = try await PostgreSQLFixture { $0.lease = .seconds(3600) }
        let (second, third) = (try await fixture.node("node-2"), try await fixture.node("node-3"))
        await third.close()
        _ = try await fixture.release(1, on: second)
        // A copy from before that release, which is older than a lease.
        try await fixture.database.sql("DELETE FROM claim; DELETE FROM audit_record WHERE node = 'node-2'")
        try await moveServer(fixture, "system_identifier = '1', timeline = 77")
        try await fixture.database.sql(
            "UPDATE node SET lease_until = clock_timestamp() - interval '1 hour' WHERE name <> 'node-3'")
        #expect(try await fixture.ledger.confirm(remembered: nil) == .continues)
        #expect(try await fixture.ledger.releaseStatus().hasCompared == false)
        #expect(try await fixture.release(1, reference: 8).verdict == .held)
        // The second node finds the copy older than its record, and holds all.
        await #expect(throws: LedgerFailure.self) { try await second.confirm(remembered: nil) }
        #expect(try await fixture.ledger.releaseStatus().holds.map(\.node) == ["node-2"])
        #expect(try await fixture.release(1, reference: 8).verdict == .held)
        await second.close()
    }

    @Test("waits no longer than a lease for a node that was killed before the copy was made")
    func killedBefore() async throws {
        let fixture = try await PostgreSQLFixture { $0.lease = .seconds(1) }
        _ = try await fixture.release(1)
        try await moveServer(fixture, "system_identifier = '1', timeline = 77")
        try await fixture.database.sql(
            """
            INSERT INTO node (name, fence, lease_until, seen_at, version, system_identifier, timeline)
            SELECT 'node-2', 1, clock_timestamp() - interval '1 hour', clock_timestamp(), version, system_identifier,
                timeline FROM node
            """)
        #expect(try await fixture.ledger.confirm(remembered: nil) == .continues)
        #expect(try await fixture.release(2).verdict == .held)
        while try await fixture.ledger.releaseStatus().isServerChanged {
            #expect(try await fixture.ledger.confirm(remembered: nil) == .continues)
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(try await fixture.release(2).verdict == .released)
    }

    @Test("does not count a node as compared whose HSM token remembers more")
    func behind() async throws {
        let fixture = try await PostgreSQLFixture()
        let signer = CheckpointSigner()
        for number in 1...3 { _ = try await fixture.release(number) }
        let checkpoint = try await signer.seal(fixture.ledger).checkpoint
        try await moveServer(fixture, "timeline = 77")
        try await fixture.database.sql("DELETE FROM audit_record WHERE sequence = 3")
        // After a restart the process remembers nothing.
        await fixture.ledger.close()
        let again = try await fixture.node("node-1")
        #expect(try await again.confirm(remembered: checkpoint) == .behind(last: 2))
        #expect(try await again.releaseStatus().hasCompared == false)
        #expect(try await fixture.release(4, on: again).verdict == .held)
        await again.close()
    }
}
