import AuditChain
import Foundation
import MerchantKeys
import PaymentToken
import Testing

@testable import Ledger

/// Operations that wait for a second person: each step judged in the transaction that takes it.
@Suite struct ApprovalTests {
    private let now = LedgerFixture.noon
    private let parameters = AuditDigest.of("parameters".utf8)

    private func asked(
        _ operation: ApprovalOperation = .keyDestroy, key: PublicKeyHash? = nil, state: KeyState? = nil,
        by person: UInt32 = 1001
    ) -> Approval {
        Approval(
            identifier: .random(), operation: operation, parameters: parameters, key: key, keyState: state,
            requester: ApprovalRequester(person: person, name: "staff", uid: person, gid: 100, groups: [7, 8]),
            reason: AuditReason("rotation"), requestedAt: now, expires: now.addingTimeInterval(3600))
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

    @Test("what is asked for is kept whole, and survives a restart")
    func kept() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked(key: fixture.key, state: .active)
        _ = try await take(.request(approval), in: fixture)
        #expect(try await fixture.ledger.approval(approval.identifier) == approval)
        await fixture.ledger.close()
        let reopened = try await SQLiteLedger.open(fixture.settings)
        #expect(try await reopened.approvals(limit: 10) == [approval])
        await reopened.close()
    }

    @Test("another person approves; the key changes and both are recorded in the same transaction")
    func approves() async throws {
        let fixture = try await LedgerFixture()
        _ = try await fixture.ledger.record(LedgerFixture.record(fixture.key, state: .suspended))
        let approval = asked(key: fixture.key, state: .suspended)
        _ = try await take(.request(approval), in: fixture)
        let sequences = try await take(
            .approve(approval.identifier, by: 1002, uid: 1002, executes: true), in: fixture,
            key: LedgerFixture.record(fixture.key, state: .destroyed), precondition: .state(.suspended))
        #expect(sequences.count == 1)
        #expect(try await fixture.ledger.keyRecords().first?.state == .destroyed)
        let decided = try #require(try await fixture.ledger.approval(approval.identifier))
        #expect(decided.status == .done && decided.decidedBy == 1002)
    }

    @Test("nobody approves what he asked for himself, and nothing of it happens")
    func samePerson() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked(key: fixture.key, state: .active)
        _ = try await take(.request(approval), in: fixture)
        let head = try await fixture.ledger.head()
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(
                    .approve(approval.identifier, by: 1001, uid: 1001, executes: true), in: fixture,
                    key: LedgerFixture.record(fixture.key, state: .compromised))
            } == .samePerson)
        #expect(try await fixture.ledger.keyRecords().first?.state == .active)
        #expect(try await fixture.ledger.head() == head)
        #expect(try await fixture.ledger.approval(approval.identifier)?.status == .pending)
    }

    @Test("one uid is two persons only when each logged in as somebody")
    func oneUID() async throws {
        let fixture = try await LedgerFixture()
        for (requester, approver, isAnother): ((UInt32, UInt32), (UInt32, UInt32), Bool) in [
            // Person and uid of each. A service gave itself a login uid, before or after.
            ((1003, 1003), (2077, 1003), false), ((2077, 1003), (1003, 1003), false),
            // Two people with sudo.
            ((2000, 0), (2001, 0), true), ((2000, 1003), (2000, 1004), false), ((1003, 1003), (1004, 1004), true),
        ] {
            let asked = ApprovalRequester(person: requester.0, name: "staff", uid: requester.1, gid: 1, groups: [])
            #expect(asked.isAnother(person: approver.0, uid: approver.1) == isAnother, "\(requester) \(approver)")
        }
        await fixture.ledger.close()
    }

    @Test("a key's change finds it as it was judged, or does not take place")
    func precondition() async throws {
        let fixture = try await LedgerFixture()
        _ = try await fixture.ledger.record(LedgerFixture.record(fixture.key, state: .suspended))
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

    @Test("one person has at most twenty requests open, and what is open is listed first")
    func openRequests() async throws {
        let fixture = try await LedgerFixture()
        let withdrawn = asked()
        _ = try await take(.request(withdrawn), in: fixture)
        _ = try await take(.withdraw(withdrawn.identifier, by: 1001), in: fixture)
        for _ in 0..<20 { _ = try await take(.request(asked()), in: fixture) }
        #expect(
            await conflict { () throws(LedgerFailure) in try await take(.request(asked()), in: fixture) }
                == .tooMany(20))
        _ = try await take(.request(asked(by: 1002)), in: fixture)
        #expect(try await fixture.ledger.approvals(limit: 21).allSatisfy { $0.status == .pending })
    }

    @Test("a request whose key changed meanwhile is not approved")
    func keyChanged() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked(key: fixture.key, state: .active)
        _ = try await take(.request(approval), in: fixture)
        _ = try await fixture.ledger.record(LedgerFixture.record(fixture.key, state: .suspended))
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(.approve(approval.identifier, by: 1002, uid: 1002, executes: true), in: fixture)
            } == .keyChanged(from: .active, to: .suspended))
    }

    @Test("after its time a request is expired, for every step, and the sweep records it once")
    func expires() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked()
        _ = try await take(.request(approval), in: fixture)
        for step: AdministrativeChange.ApprovalStep in [
            .approve(approval.identifier, by: 1002, uid: 1002, executes: true), .reject(approval.identifier, by: 1002),
            .withdraw(approval.identifier, by: 1001),
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

    @Test("what was rejected, withdrawn or done is not decided again")
    func once() async throws {
        let fixture = try await LedgerFixture()
        for (step, status): ((ApprovalIdentifier) -> AdministrativeChange.ApprovalStep, Approval.Status) in [
            ({ .reject($0, by: 1002) }, .rejected), ({ .withdraw($0, by: 1001) }, .withdrawn),
            ({ .approve($0, by: 1002, uid: 1002, executes: true) }, .done),
        ] {
            let approval = asked()
            _ = try await take(.request(approval), in: fixture)
            _ = try await take(step(approval.identifier), in: fixture)
            #expect(
                await conflict { () throws(LedgerFailure) in
                    try await take(.approve(approval.identifier, by: 1003, uid: 1003, executes: true), in: fixture)
                } == .notPending(status))
        }
    }

    @Test("only its requester withdraws a request")
    func withdraws() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked()
        _ = try await take(.request(approval), in: fixture)
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(.withdraw(approval.identifier, by: 1002), in: fixture)
            } == .anotherPerson)
    }

    @Test("an approved import is used once, by its requester, with the very parameters")
    func uses() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked(.keyImport)
        _ = try await take(.request(approval), in: fixture)
        let use = AdministrativeChange.ApprovalStep.use(approval.identifier, parameters: parameters, by: 1001)
        #expect(await conflict { () throws(LedgerFailure) in try await take(use, in: fixture) } == .notApproved)
        _ = try await take(.approve(approval.identifier, by: 1002, uid: 1002, executes: false), in: fixture)
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(
                    .use(approval.identifier, parameters: parameters, by: 1002), in: fixture)
            } == .anotherPerson)
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(
                    .use(approval.identifier, parameters: .zero, by: 1001), in: fixture)
            } == .otherParameters)
        _ = try await take(use, in: fixture)
        #expect(
            await conflict { () throws(LedgerFailure) in try await take(use, in: fixture) } == .notPending(.done))
    }

    @Test("an approval that nobody knows is unknown")
    func unknown() async throws {
        let fixture = try await LedgerFixture()
        #expect(
            await conflict { () throws(LedgerFailure) in
                try await take(.approve(.random(), by: 1, uid: 1, executes: true), in: fixture)
            } == .unknown)
    }

    @Test("of thirty approvals at once exactly one is carried out")
    func thirty() async throws {
        let fixture = try await LedgerFixture()
        let approval = asked()
        _ = try await take(.request(approval), in: fixture)
        let successes = await withTaskGroup(of: Bool.self) { group in
            for person: UInt32 in 2000..<2030 {
                group.addTask {
                    (try? await take(
                        .approve(approval.identifier, by: person, uid: person, executes: true), in: fixture)) != nil
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(successes == 1)
    }
}
