import AccessControl
import AuditChain
import Foundation
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

@Suite("Changes of keys and approvals on other nodes")
struct FollowingTests {
    /// The updates that a node receives, in order.
    private struct News {
        private var iterator: AsyncStream<AdministrativeUpdates>.Iterator

        init(_ ledger: PostgreSQLLedger) {
            iterator = ledger.administrativeUpdates().makeAsyncIterator()
        }

        mutating func next() async throws -> AdministrativeUpdates { try #require(await iterator.next()) }

        /// The first update that names a key.
        mutating func next(of key: PublicKeyHash) async throws -> AdministrativeUpdates {
            while true {
                let news = try await next()
                if news.keys?.contains(key) == true { return news }
            }
        }
    }

    private static func approval(
        _ operation: ApprovalOperation, by person: PersonIdentities = alice
    ) -> Approval {
        Approval(
            identifier: .random(), operation: operation, parameters: .of([1]), key: nil, keyState: nil,
            requester: ApprovalRequester(person: person, name: "security-a", gid: 100, groups: []),
            reason: AuditReason("yearly"), requestedAt: Date(),
            // This time is in the future by the server's clock, as all times in the tests' databases are.
            expires: Date(timeIntervalSince1970: 9_000_003_600))
    }

    private static let alice = PersonIdentities(uid: 1001, account: "alice")

    private static func apply(
        _ step: AdministrativeChange.ApprovalStep, to ledger: PostgreSQLLedger
    ) async throws {
        try await ledger.apply(AdministrativeChange(at: Date(), approval: step, records: []))
    }

    @Test(
        "names a key that another node changes, with the server's notification and without it",
        arguments: [true, false])
    func keys(listens: Bool) async throws {
        let fixture = try await PostgreSQLFixture { $0.listens = listens }
        let other = try await fixture.node("node-2")
        var news = News(fixture.ledger)
        // Earlier changes are not reported individually.
        #expect(try await news.next() == AdministrativeUpdates(keys: nil))
        let second = LedgerFixture.hash(2)
        try await other.store(LedgerFixture.record(second))
        #expect(try await news.next(of: second).keys == [second])
        try await other.store(LedgerFixture.record(fixture.key, state: .suspended))
        #expect(try await news.next(of: fixture.key).keys == [fixture.key])
        await other.close()
    }

    @Test("reports after a lost session that anything may have changed")
    func lostSession() async throws {
        let fixture = try await PostgreSQLFixture()
        var news = News(fixture.ledger)
        #expect(try await news.next().keys == nil)
        try await fixture.endSessions()
        while try await news.next().keys != nil {}
        try await fixture.ledger.store(LedgerFixture.record(fixture.key, state: .suspended))
        #expect(try await news.next(of: fixture.key).keys == [fixture.key])
    }

    @Test("ends the news when the ledger is closed")
    func closed() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        var iterator = other.administrativeUpdates().makeAsyncIterator()
        _ = await iterator.next()
        await other.close()
        #expect(await iterator.next() == nil)
    }

    @Test(
        "reports a node's own approved operations to that node alone until they are done, for each such operation",
        arguments: ApprovalOperation.allCases)
    func approvals(operation: ApprovalOperation) async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        let approval = Self.approval(operation)
        try await Self.apply(.request(approval), to: fixture.ledger)
        #expect(try await other.approval(approval.identifier)?.node == "node-1")
        try await Self.apply(
            .approve(approval.identifier, by: PersonIdentities(uid: 1002, account: "bob"), executes: false), to: other)
        var (news, others) = (News(fixture.ledger), News(other))
        let isOfOneNode = [.keyAdopt, .auditKeyChange, .ledgerAcceptRestore, .ledgerAcceptClock].contains(operation)
        #expect(try await news.next().approvals == (isOfOneNode ? [approval.identifier] : []))
        #expect(try await others.next().approvals == [])
        guard isOfOneNode else { return await other.close() }
        // The approval is reported again, because its operation has not been executed.
        #expect(try await news.next().approvals == [approval.identifier])
        try await Self.apply(
            .use(approval.identifier, parameters: approval.parameters, by: approval.requester.person),
            to: fixture.ledger)
        #expect(try await fixture.ledger.approval(approval.identifier)?.status == .done)
        try await other.store(LedgerFixture.record(fixture.key, state: .suspended))
        #expect(try await news.next(of: fixture.key).approvals == [])
        await other.close()
    }

    @Test(
        "requires of an approver on another node that all uids and account names are known and differ",
        arguments: [
            (alice, PersonIdentities(uid: 1002, account: "bob"), nil),
            // The account alice has a different uid on this node, but is the same person.
            (alice, PersonIdentities(uid: 1002, account: "alice"), .sameAccount(node: "node-1")),
            (alice, PersonIdentities(uid: 1001, account: "bob"), .samePerson),
            (alice, PersonIdentities(uid: 1002, loginUID: 1001, account: "bob", loginAccount: "carol"), .samePerson),
            // A person who logged in with her own account and switched to another one.
            (
                alice, PersonIdentities(uid: 1002, loginUID: 1003, account: "admin", loginAccount: "alice"),
                .sameAccount(node: "node-1")
            ),
            (
                PersonIdentities(uid: 1005, loginUID: 1001, account: "admin", loginAccount: "alice"),
                PersonIdentities(uid: 1002, account: "alice"), .sameAccount(node: "node-1")
            ),
            // Root's account name identifies a person no better than its uid.
            (
                PersonIdentities(uid: 0, loginUID: 1001, account: "root", loginAccount: "alice"),
                PersonIdentities(uid: 0, loginUID: 1002, account: "root", loginAccount: "bob"), nil
            ),
            // An approver whose account name is unknown may be the requester.
            (alice, PersonIdentities(uid: 1002), .accountUnknown(node: "node-1")),
            (
                alice, PersonIdentities(uid: 1002, loginUID: 1003, account: "bob"),
                .accountUnknown(node: "node-1")
            ),
            // Requests made by older versions have no names.
            (
                PersonIdentities(uid: 1001), PersonIdentities(uid: 1002, account: "bob"),
                .requestersAccountUnknown(node: "node-1")
            ),
        ] as [(PersonIdentities, PersonIdentities, ApprovalConflict?)])
    func persons(requester: PersonIdentities, approver: PersonIdentities, conflict: ApprovalConflict?) async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        let approval = Self.approval(.auditKeyChange, by: requester)
        try await Self.apply(.request(approval), to: fixture.ledger)
        let step = AdministrativeChange.ApprovalStep.approve(approval.identifier, by: approver, executes: false)
        if let conflict {
            await #expect(throws: LedgerFailure.approval(conflict)) { try await Self.apply(step, to: other) }
        } else {
            try await Self.apply(step, to: other)
        }
        #expect(
            try await fixture.ledger.approval(approval.identifier)?.status == (conflict == nil ? .approved : .pending))
        await other.close()
    }

    @Test("lets an account of the same uid on another node neither withdraw nor use a request")
    func sameUID() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        let approval = Self.approval(.keyImport)
        let outsider = PersonIdentities(uid: 1001, account: "alice")
        try await Self.apply(.request(approval), to: fixture.ledger)
        await #expect(throws: LedgerFailure.approval(.anotherPerson)) {
            try await Self.apply(.withdraw(approval.identifier, by: outsider), to: other)
        }
        try await Self.apply(
            .approve(approval.identifier, by: PersonIdentities(uid: 1002, account: "bob"), executes: false), to: other)
        let use = AdministrativeChange.ApprovalStep.use(
            approval.identifier, parameters: approval.parameters, by: outsider)
        await #expect(throws: LedgerFailure.approval(.anotherPerson)) { try await Self.apply(use, to: other) }
        try await Self.apply(use, to: fixture.ledger)
        await other.close()
    }

    @Test("counts twenty open requests of an account on one node apart from the same uid on another")
    func limits() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        for _ in 0..<Approval.openLimit {
            try await Self.apply(.request(Self.approval(.auditKeyChange)), to: fixture.ledger)
        }
        await #expect(throws: LedgerFailure.approval(.tooMany(Approval.openLimit))) {
            try await Self.apply(.request(Self.approval(.auditKeyChange)), to: fixture.ledger)
        }
        try await Self.apply(.request(Self.approval(.auditKeyChange)), to: other)
        await other.close()
    }
}
