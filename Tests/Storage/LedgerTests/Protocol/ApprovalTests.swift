import AccessControl
import AuditChain
import Foundation
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger

/// Operations that need a second person's approval. Each step is checked in its own transaction.
@Suite(.everyEngine) struct ApprovalTests {
    private let now = LedgerFixture.noon
    private let parameters = AuditDigest.of("parameters".utf8)

    private func asked(
        _ operation: ApprovalOperation = .keyDestroy, key: PublicKeyHash? = nil, state: KeyState? = nil,
        by uid: UInt32 = 1001, login: UInt32? = nil, at time: Date? = nil
    ) -> Approval {
        var approval = Approval(
            identifier: .random(), operation: operation, parameters: parameters, key: key, keyState: state,
            requester: ApprovalRequester(
                person: PersonIdentities(uid: uid, loginUID: login), name: "staff", gid: 100, groups: [7, 8]),
            reason: AuditReason("rotation"), requestedAt: time ?? now,
            expires: (time ?? now).addingTimeInterval(3600))
        // The times have the precision that the ledger stores.
        approval.node = "node-1"
        return approval
    }

    private func person(_ uid: UInt32, login: UInt32? = nil) -> PersonIdentities {
        PersonIdentities(uid: uid, loginUID: login)
    }

    private func record(_ event: AuditEvent = .verify) -> AuditRecord {
        AuditRecord(time: AuditTime(now), event: event)
    }

    private func take(
        _ step: AdministrativeChange.ApprovalStep, in fixture: LedgerFixture, after seconds: Double = 0,
        key: KeyRecord? = nil, precondition: KeyPrecondition = .any
    ) async throws(LedgerFailure) -> [Int] {
        try await fixture.ledger.apply(
            AdministrativeChange(
                at: now.addingTimeInterval(seconds), key: key, precondition: precondition, approval: step,
                records: [record()]))
    }

    private func conflict(_ body: () async throws(LedgerFailure) -> [Int]) async -> ApprovalConflict? {
        do throws(LedgerFailure) {
            _ = try await body()
            return nil
        } catch {
            if case .approval(let conflict) = error { return conflict }
            Issue.record("\(error)")
            return nil
        }
    }

    @Test("keeps a request whole, also over a restart")
    func kept() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked(key: fixture.key, state: .active)
        _ = try await take(.request(approval), in: fixture)
        #expect(try await fixture.ledger.approval(approval.identifier) == approval)
        await fixture.ledger.close()
        let reopened = try await fixture.reopened()
        #expect(try await reopened.approvals(limit: 10) == [approval])
        await reopened.close()
    }

    @Test("changes the key and records both in one transaction when another person approves")
    func approves() async throws {
        let fixture = try await LedgerFixture()
        try await fixture.ledger.store(LedgerFixture.record(fixture.key, state: .suspended))
        let approval = asked(key: fixture.key, state: .suspended)
        _ = try await take(.request(approval), in: fixture)
        let sequences = try await take(
            .approve(approval.identifier, by: person(1002), executes: true), in: fixture,
            key: LedgerFixture.record(fixture.key, state: .destroyed), precondition: .state(.suspended))
        #expect(sequences.count == 1)
        #expect(try await fixture.ledger.keyRecords().first?.state == .destroyed)
        let decided = try #require(try await fixture.ledger.approval(approval.identifier))
        #expect(decided.status == .done && decided.decidedBy == 1002)
    }

    @Test("refuses an approval by the requester, and changes nothing")
    func samePerson() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked(key: fixture.key, state: .active)
        _ = try await take(.request(approval), in: fixture)
        let head = try await fixture.ledger.head()
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(
                    .approve(approval.identifier, by: person(1001), executes: true), in: fixture,
                    key: LedgerFixture.record(fixture.key, state: .compromised))
            } == .samePerson)
        #expect(try await fixture.ledger.keyRecords().first?.state == .active)
        #expect(try await fixture.ledger.head() == head)
        #expect(try await fixture.ledger.approval(approval.identifier)?.status == .pending)
    }

    /// A peer's login uid and uid. The login uid is nil if no user logged in.
    typealias Peer = (login: UInt32?, uid: UInt32)

    @Test(
        "counts two peers as two persons only if they share no number among uids and login uids, root's left out",
        arguments: [
            // Two different accounts are two persons, and one account is one person.
            ((nil, 1003), (nil, 1004), true), ((nil, 1003), (nil, 1003), false),
            // The processes of one account set their own login uids, before the request, after it, or both times.
            ((nil, 1003), (2077, 1003), false), ((2077, 1003), (nil, 1003), false),
            ((5555, 1003), (6666, 1003), false), ((1003, 1003), (6666, 1003), false),
            // Login uids do not separate two people who share an account, because a process can set its own.
            ((2000, 1003), (2001, 1003), false),
            // A person uses su to change to another account, or back. The login uid does not change.
            ((1003, 1003), (1003, 1004), false), ((1003, 1004), (1003, 1003), false),
            ((1003, 1004), (nil, 1003), false),
            ((1003, 1004), (1003, 1005), false),
            // Two people with separate accounts, who are logged in or whose commands run from cron.
            ((1003, 1003), (1004, 1004), true), ((1003, 1003), (nil, 1004), true),
            // Root's uid identifies no person. Two people who use sudo differ by their login uids.
            ((2000, 0), (2001, 0), true), ((2000, 0), (2000, 0), false), ((2000, 0), (nil, 2000), false),
            ((0, 1003), (0, 1004), true), ((nil, 1003), (nil, 0), true),
        ] as [(Peer, Peer, Bool)])
    func persons(one: Peer, other: Peer, areTwo: Bool) {
        let (one, other) = (person(one.uid, login: one.login), person(other.uid, login: other.login))
        #expect(one.isAnother(than: other) == areTwo)
        #expect(other.isAnother(than: one) == areTwo)
    }

    @Test("refuses an account that shows another login uid each time")
    func loginUIDs() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked(by: 1001, login: 5555)
        _ = try await take(.request(approval), in: fixture)
        #expect(try await fixture.ledger.approval(approval.identifier) == approval)
        for approver in [person(1001, login: 6666), person(1001), person(1002, login: 5555), person(1002, login: 1001)]
        {
            #expect(
                await conflict { () throws(LedgerFailure) in
                    try await take(.approve(approval.identifier, by: approver, executes: true), in: fixture)
                } == .samePerson, "\(approver)")
        }
        // An account that sets the requester's login uid cannot withdraw the request either.
        for step: AdministrativeChange.ApprovalStep in [
            .withdraw(approval.identifier, by: person(1002, login: 1001)),
            .withdraw(approval.identifier, by: person(1002, login: 5555)),
        ] {
            #expect(
                await conflict { () throws(LedgerFailure) in try await take(step, in: fixture) } == .anotherPerson)
        }
        _ = try await take(.approve(approval.identifier, by: person(1002, login: 1002), executes: true), in: fixture)
        #expect(try await fixture.ledger.approval(approval.identifier)?.decidedBy == 1002)
    }

    @Test("reads an earlier version's request: its requester is the login uid where one was set, else the uid")
    func earlierRows() async throws {
        let fixture = try await LedgerFixture()
        let identifier = try #require(ApprovalIdentifier(hex: "0a1b2c3d4e5f6071"))
        try await fixture.insertEarlierApproval()
        let read = try #require(try await fixture.ledger.approval(identifier))
        #expect(read.requester.person == person(1003, login: 2077))
        for approver in [person(1003, login: 6666), person(2077), person(1004, login: 2077)] {
            #expect(
                await conflict { () throws(LedgerFailure) in
                    try await take(.approve(identifier, by: approver, executes: true), in: fixture)
                } == .samePerson, "\(approver)")
        }
        _ = try await take(.approve(identifier, by: person(1004), executes: true), in: fixture)
    }

    @Test("changes a key only if it is as it was when the change was decided")
    func precondition() async throws {
        let fixture = try await LedgerFixture()
        try await fixture.ledger.store(LedgerFixture.record(fixture.key, state: .suspended))
        for wrong: KeyPrecondition in [.absent, .state(.active)] {
            let failure = await #expect(throws: LedgerFailure.self) {
                try await fixture.ledger.apply(
                    AdministrativeChange(
                        at: now, key: LedgerFixture.record(fixture.key), precondition: wrong, records: [record()]))
            }
            #expect(failure == .conflict(.changedMeanwhile))
        }
        #expect(try await fixture.ledger.keyRecords().first?.state == .suspended)
    }

    @Test("allows one person at most twenty open requests, and lists open ones first")
    func openRequests() async throws {
        let fixture = try await LedgerFixture()
        let withdrawn = asked()
        _ = try await take(.request(withdrawn), in: fixture)
        _ = try await take(.withdraw(withdrawn.identifier, by: person(1001)), in: fixture)
        // The limit counts an account's requests, regardless of their login uids.
        for login: UInt32 in 3000..<3020 { _ = try await take(.request(asked(login: login)), in: fixture) }
        #expect(
            await conflict { () throws(LedgerFailure) in try await take(.request(asked()), in: fixture) }
                == .tooMany(20))
        _ = try await take(.request(asked(by: 1002)), in: fixture)
        #expect(try await fixture.ledger.approvals(limit: 21).allSatisfy { $0.status == .pending })
    }

    @Test("refuses to approve a request whose key has changed")
    func keyChanged() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked(key: fixture.key, state: .active)
        _ = try await take(.request(approval), in: fixture)
        try await fixture.ledger.store(LedgerFixture.record(fixture.key, state: .suspended))
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(.approve(approval.identifier, by: person(1002), executes: true), in: fixture)
            } == .keyChanged(from: .active, to: .suspended))
    }

    @Test("expires an overdue request at every step, and records it once in the sweep")
    func expires() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked()
        _ = try await take(.request(approval), in: fixture)
        for step: AdministrativeChange.ApprovalStep in [
            .approve(approval.identifier, by: person(1002), executes: true),
            .reject(approval.identifier, by: person(1002)),
            .withdraw(approval.identifier, by: person(1001)),
        ] {
            #expect(
                await conflict { () throws(LedgerFailure) in try await take(step, in: fixture, after: 3600) }
                    == .expired)
        }
        let late = now.addingTimeInterval(3600)
        #expect(try await fixture.ledger.expireApprovals(now: late) == 1)
        #expect(try await fixture.ledger.expireApprovals(now: late) == 0)
        #expect(try await fixture.ledger.approval(approval.identifier)?.status == .expired)
        #expect(try await fixture.ledger.everyEntry().last?.event == "approval_decision")
    }

    @Test("ends any number of overdue requests in one sweep, each with its record")
    func expiresAll() async throws {
        let fixture = try await LedgerFixture()
        for uid: UInt32 in 1..<14 {
            for _ in 0..<20 { _ = try await take(.request(asked(by: uid)), in: fixture) }
        }
        let open = asked(by: 1001, at: now.addingTimeInterval(1))
        _ = try await take(.request(open), in: fixture)
        let before = try await fixture.ledger.head().sequence
        #expect(try await fixture.ledger.expireApprovals(now: now.addingTimeInterval(3600)) == 260)
        #expect(try await fixture.ledger.head().sequence == before + 260)
        #expect(try await fixture.ledger.approval(open.identifier)?.status == .pending)
    }

    @Test("removes ended requests after their time and beyond a number, the oldest first, and keeps open ones")
    func forgets() async throws {
        let fixture = try await LedgerFixture()
        var ended: [Approval] = []
        for second in 0..<6 {
            let approval = asked(at: now.addingTimeInterval(Double(second)))
            _ = try await take(.request(approval), in: fixture)
            _ = try await take(.withdraw(approval.identifier, by: person(1001)), in: fixture)
            ended.append(approval)
        }
        let open = asked(at: now.addingTimeInterval(-1000))
        _ = try await take(.request(open), in: fixture)
        func left() async throws -> [ApprovalIdentifier] {
            try await fixture.ledger.approvals(limit: 100).map(\.identifier)
        }
        #expect(try await fixture.ledger.forgetApprovals(expiredBefore: now.addingTimeInterval(3600), keeping: 6) == 0)
        #expect(try await left().count == 7)
        // The first two requests expired at 3600 and 3601 seconds.
        #expect(try await fixture.ledger.forgetApprovals(expiredBefore: now.addingTimeInterval(3602), keeping: 6) == 2)
        #expect(try await left() == [open.identifier] + ended[2...].reversed().map(\.identifier))
        #expect(try await fixture.ledger.forgetApprovals(expiredBefore: now, keeping: 3) == 1)
        #expect(try await left() == [open.identifier] + ended[3...].reversed().map(\.identifier))
        // One request goes because it expired before 3604, and one because only one ended request is kept. The open
        // request stays, although its time has passed.
        #expect(try await fixture.ledger.forgetApprovals(expiredBefore: now.addingTimeInterval(3604), keeping: 1) == 2)
        #expect(try await left() == [open.identifier, ended[5].identifier])
        #expect(try await fixture.ledger.forgetApprovals(expiredBefore: .distantFuture, keeping: 1) == 1)
        #expect(try await left() == [open.identifier])
    }

    @Test("decides nothing again that was rejected, withdrawn or done")
    func once() async throws {
        let fixture = try await LedgerFixture()
        for (step, status): ((ApprovalIdentifier) -> AdministrativeChange.ApprovalStep, Approval.Status) in [
            ({ .reject($0, by: person(1002)) }, .rejected), ({ .withdraw($0, by: person(1001)) }, .withdrawn),
            ({ .approve($0, by: person(1002), executes: true) }, .done),
        ] {
            let approval = asked()
            _ = try await take(.request(approval), in: fixture)
            _ = try await take(step(approval.identifier), in: fixture)
            for again: AdministrativeChange.ApprovalStep in [
                .approve(approval.identifier, by: person(1003), executes: true),
                .reject(approval.identifier, by: person(1003)), .withdraw(approval.identifier, by: person(1001)),
            ] {
                #expect(
                    await conflict { () throws(LedgerFailure) in try await take(again, in: fixture) }
                        == .notPending(status))
            }
        }
    }

    @Test("neither approves nor rejects a request that is approved already")
    func approvedAlready() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked(.keyImport)
        _ = try await take(.request(approval), in: fixture)
        _ = try await take(.approve(approval.identifier, by: person(1002), executes: false), in: fixture)
        for again: AdministrativeChange.ApprovalStep in [
            .approve(approval.identifier, by: person(1003), executes: false),
            .reject(approval.identifier, by: person(1003)),
        ] {
            #expect(
                await conflict { () throws(LedgerFailure) in try await take(again, in: fixture) }
                    == .notPending(.approved))
        }
    }

    @Test("lets only the requester withdraw a request")
    func withdraws() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked()
        _ = try await take(.request(approval), in: fixture)
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(.withdraw(approval.identifier, by: person(1002)), in: fixture)
            } == .anotherPerson)
    }

    @Test("lets the requester use an approved import once, with the same parameters")
    func uses() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked(.keyImport)
        _ = try await take(.request(approval), in: fixture)
        let use = AdministrativeChange.ApprovalStep.use(approval.identifier, parameters: parameters, by: person(1001))
        #expect(await conflict { () throws(LedgerFailure) in try await take(use, in: fixture) } == .notApproved)
        _ = try await take(.approve(approval.identifier, by: person(1002), executes: false), in: fixture)
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(
                    .use(approval.identifier, parameters: parameters, by: person(1002)), in: fixture)
            } == .anotherPerson)
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(
                    .use(approval.identifier, parameters: .zero, by: person(1001)), in: fixture)
            } == .otherParameters)
        _ = try await take(use, in: fixture)
        #expect(
            await conflict { () throws(LedgerFailure) in try await take(use, in: fixture) } == .notPending(.done))
    }

    @Test("reports an approval that does not exist as unknown")
    func unknown() async throws {
        let fixture = try await LedgerFixture()
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(.approve(.random(), by: person(1), executes: true), in: fixture)
            } == .unknown)
    }

    @Test("carries out exactly one of thirty approvals at once")
    func thirty() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked()
        _ = try await take(.request(approval), in: fixture)
        let successes = await withTaskGroup(of: Bool.self) { group in
            for uid: UInt32 in 2000..<2030 {
                group.addTask {
                    (try? await take(
                        .approve(approval.identifier, by: PersonIdentities(uid: uid), executes: true), in: fixture))
                        != nil
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(successes == 1)
    }
}
