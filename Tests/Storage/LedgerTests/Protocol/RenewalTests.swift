import AccessControl
import AuditChain
import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger

/// Renewals and their attempts in the ledger. `Renewal` has the rules; here is what a transaction adds to them.
@Suite("Stored renewals", .everyEngine)
struct RenewalTests {
    private static let merchant = "merchant.com.example"
    /// The fixture has another key, which is active.
    private static let key = LedgerFixture.hash(2)
    private static let (alice, bob) = (
        PersonIdentities(uid: 1001, loginUID: nil), PersonIdentities(uid: 1002, loginUID: nil)
    )

    private func renewal(
        use: KeyUse = .processing, algorithm: KeyAlgorithm = .ec, merchant: String = merchant
    ) -> StoredRenewal {
        StoredRenewal(
            identifier: .random(),
            renewal: Renewal(merchantIdentifier: merchant, use: use, algorithm: algorithm, newKey: Self.key),
            requesterUID: 1001, requesterName: "alice", startedAt: LedgerFixture.noon)
    }

    private func attempt(
        _ change: Renewal.Change = .create, number: Int = 1, target: String = "IDS0FT1234",
        approval: ApprovalIdentifier? = nil, at time: Date = LedgerFixture.noon
    ) -> RenewalAttempt {
        RenewalAttempt(
            identifier: .random(),
            .init(
                change: change, number: number, intendedAt: time, outcome: .intended,
                excludedNodes: ["host-b", "host-c"]),
            target: target, approval: approval)
    }

    private static func change(
        _ step: AdministrativeChange.RenewalStep, at time: Date = LedgerFixture.noon
    ) -> AdministrativeChange {
        var change = AdministrativeChange(
            at: time,
            records: [AuditRecord(time: AuditTime(time), event: .renewalStep(RenewalStepDetails(step: .start)))])
        change.renewal = step
        return change
    }

    /// A ledger with the new key before its activation, and an open renewal.
    private func started() async throws -> (fixture: LedgerFixture, stored: StoredRenewal) {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        try await ledger.store(LedgerFixture.record(Self.key, state: .preActivation))
        let stored = renewal()
        try await ledger.apply(Self.change(.start(stored)))
        return (fixture, stored)
    }

    private func only(_ ledger: any TestedLedger) async throws -> StoredRenewal {
        let all = try await ledger.renewals(of: Self.merchant)
        try #require(all.count == 1)
        return all[0]
    }

    @Test("returns a renewal with its attempts as they were stored")
    func read() async throws {
        let (fixture, begun) = try await started()
        defer { withExtendedLifetime(fixture) {} }
        let ledger = fixture.ledger
        var stored = begun
        stored.node = ledger.node
        #expect(try await only(ledger) == stored)
        #expect(try await ledger.openRenewals() == [stored])
        #expect(try await ledger.renewals(of: "merchant.com.other").isEmpty)
        let later = LedgerFixture.noon + 60
        let attempt = attempt(at: later)
        try await ledger.apply(Self.change(.begin(attempt, of: stored.identifier, previous: "OLD"), at: later))
        var found = try await only(ledger)
        #expect(found.attempts == [attempt] && found.renewal.previousCertificateId == "OLD")
        #expect(found.renewal.attempts == [attempt.attempt])
        try await ledger.apply(
            Self.change(
                .answer(
                    attempt.identifier, of: stored.identifier, .accepted, code: nil,
                    certificate: (id: "NEW", der: [1, 2, 3])), at: later + 1))
        found = try await only(ledger)
        #expect(found.renewal.certificateId == "NEW" && found.certificate == [1, 2, 3])
        #expect(found.renewal.attempts.map(\.outcome) == [.accepted])
        #expect(found.renewal.attempts[0].answeredAt == later + 1)
        try await ledger.apply(Self.change(.finish(stored.identifier), at: later + 2))
        found = try await only(ledger)
        #expect(found.renewal.state == .finished && found.endedAt == later + 2)
        #expect(try await ledger.openRenewals().isEmpty)
        // A revocation after the end does not change its time.
        try await ledger.apply(
            Self.change(
                .begin(self.attempt(.revoke, target: "OLD"), of: stored.identifier, previous: nil), at: later + 3))
        #expect(try await only(ledger).endedAt == later + 2)
    }

    @Test("finds a stored answer whose acknowledgement is lost, and refuses the repeated one as answered")
    func acknowledgementLost() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        let ledger = fixture.ledger
        try await ledger.store(LedgerFixture.record(Self.key, state: .preActivation))
        let (stored, attempt) = (renewal(), attempt())
        try await ledger.apply(Self.change(.start(stored)))
        try await ledger.apply(Self.change(.begin(attempt, of: stored.identifier, previous: nil)))
        let answer = Self.change(
            .answer(
                attempt.identifier, of: stored.identifier, .accepted, code: nil,
                certificate: (id: "NEW", der: [1, 2, 3])))
        fixture.loseAcknowledgement()
        try await ledger.apply(answer)
        #expect(fixture.lostAcknowledgements == 1)
        let head = try await ledger.head()
        #expect(head.sequence == 3)
        await #expect(throws: LedgerFailure.renewal(.answered(.accepted))) { try await ledger.apply(answer) }
        #expect(try await only(ledger).certificate == [1, 2, 3])
        #expect(try await ledger.head() == head)
    }

    @Test("has one open renewal of a merchant's use and algorithm, of several that start at the same time")
    func oneOpen() async throws {
        let fixture = try await LedgerFixture()
        defer { withExtendedLifetime(fixture) {} }
        let ledger = fixture.ledger
        try await ledger.store(LedgerFixture.record(Self.key, state: .preActivation))
        let outcomes = await withTaskGroup(of: Result<Void, LedgerFailure>.self) { group in
            for _ in 0..<6 {
                let stored = renewal()
                group.addTask {
                    do throws(LedgerFailure) {
                        try await ledger.apply(Self.change(.start(stored)))
                        return .success(())
                    } catch { return .failure(error) }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count { (try? $0.get()) != nil } == 1)
        for case .failure(let failure) in outcomes { #expect(failure == .renewal(.notOpen(.open))) }
        let open = try await only(ledger)
        // Another use or algorithm, and another renewal after the end of the first.
        try await ledger.apply(Self.change(.start(renewal(algorithm: .rsa))))
        try await ledger.apply(Self.change(.start(renewal(use: .identity, algorithm: .rsa))))
        await #expect(throws: LedgerFailure.renewal(.notOpen(.open))) {
            try await ledger.apply(Self.change(.start(renewal())))
        }
        try await ledger.apply(Self.change(.abandon(open.identifier)))
        try await ledger.apply(Self.change(.start(renewal())))
        #expect(try await ledger.openRenewals().count == 3)
    }

    @Test("takes the attempts in the order of their numbers, since a clock that was ahead gave one's time")
    func clockAhead() async throws {
        let (fixture, stored) = try await started()
        defer { withExtendedLifetime(fixture) {} }
        let (ledger, noon) = (fixture.ledger, LedgerFixture.noon)
        let (ahead, lost) = (attempt(), attempt(number: 2))
        for (attempt, at, outcome) in [(ahead, noon + 3600, Renewal.Attempt.Outcome.notSent), (lost, noon, .unknown)] {
            try await ledger.apply(Self.change(.begin(attempt, of: stored.identifier, previous: nil), at: at))
            try await ledger.apply(
                Self.change(
                    .answer(attempt.identifier, of: stored.identifier, outcome, code: nil, certificate: nil), at: at))
        }
        let found = try await only(ledger)
        #expect(found.attempts.map(\.attempt.number) == [1, 2])
        // The second one's outcome is unknown, so no third follows for half an hour.
        await #expect(throws: LedgerFailure.renewal(.inDoubt(until: noon + Renewal.doubtTime))) {
            try await ledger.apply(
                Self.change(.begin(self.attempt(number: 3), of: stored.identifier, previous: nil), at: noon + 60))
        }
    }

    @Test("begins one attempt of several that begin at the same time")
    func oneAttempt() async throws {
        let (fixture, stored) = try await started()
        defer { withExtendedLifetime(fixture) {} }
        let ledger = fixture.ledger
        let outcomes = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<6 {
                let attempt = attempt()
                group.addTask {
                    (try? await ledger.apply(Self.change(.begin(attempt, of: stored.identifier, previous: nil)))) != nil
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count { $0 } == 1)
        #expect(try await only(ledger).attempts.count == 1)
        await #expect(throws: LedgerFailure.renewal(.unanswered(.create, number: 1))) {
            try await ledger.apply(Self.change(.begin(attempt(number: 2), of: stored.identifier, previous: nil)))
        }
    }

    @Test("stores an attempt and uses its approval together, or does neither")
    func approvals() async throws {
        let (fixture, stored) = try await started()
        defer { withExtendedLifetime(fixture) {} }
        let ledger = fixture.ledger
        let parameters = AuditDigest.of("parameters".utf8)
        let approval = Approval(
            identifier: .random(), operation: .certificateCreate, parameters: parameters, key: Self.key,
            keyState: .preActivation,
            requester: ApprovalRequester(person: Self.alice, name: "alice", gid: 100, groups: []),
            reason: AuditReason("test"), requestedAt: LedgerFixture.noon, expires: LedgerFixture.noon + 3600)
        func using(
            _ attempt: RenewalAttempt, _ parameters: AuditDigest, activates: Bool = false
        ) -> AdministrativeChange {
            var change = Self.change(.begin(attempt, of: stored.identifier, previous: nil))
            change.approval = .use(approval.identifier, parameters: parameters, by: Self.alice)
            if activates {
                (change.key, change.precondition) = (LedgerFixture.record(Self.key), .state(.preActivation))
            }
            return change
        }
        try await ledger.apply(AdministrativeChange(at: LedgerFixture.noon, approval: .request(approval), records: []))
        let attempt = attempt(approval: approval.identifier)
        await #expect(throws: LedgerFailure.approval(.notApproved)) {
            try await ledger.apply(using(attempt, parameters))
        }
        try await ledger.apply(
            AdministrativeChange(
                at: LedgerFixture.noon, approval: .approve(approval.identifier, by: Self.bob, executes: false),
                records: []))
        await #expect(throws: LedgerFailure.approval(.otherParameters)) {
            try await ledger.apply(using(attempt, .of("others".utf8)))
        }
        // The rules of the renewal refuse the attempt: the approval stays unused, and the key is not active.
        await #expect(throws: LedgerFailure.renewal(.otherNumber(1))) {
            try await ledger.apply(using(self.attempt(number: 2), parameters, activates: true))
        }
        #expect(try await only(ledger).attempts.isEmpty)
        #expect(try await ledger.approval(approval.identifier)?.status == .approved)
        #expect(try await ledger.keyRecord(Self.key)?.state == .preActivation)
        try await ledger.apply(using(attempt, parameters, activates: true))
        #expect(try await only(ledger).attempts == [attempt])
        #expect(try await ledger.approval(approval.identifier)?.status == .done)
        #expect(try await ledger.keyRecord(Self.key)?.state == .active)
    }

    @Test("keeps the first definite answer, and takes one that arrives after the attempt counted as unknown")
    func answers() async throws {
        let (fixture, stored) = try await started()
        defer { withExtendedLifetime(fixture) {} }
        let ledger = fixture.ledger
        let attempt = attempt()
        try await ledger.apply(Self.change(.begin(attempt, of: stored.identifier, previous: nil)))
        let answers = [
            (Renewal.Attempt.Outcome.unknown, "lost", Renewal.Attempt.Outcome.unknown), (.refused, "409", .refused),
            (.refused, "again", .refused), (.accepted, "late", .refused),
        ]
        for (outcome, code, expected) in answers {
            let answer = Self.change(
                .answer(attempt.identifier, of: stored.identifier, outcome, code: code, certificate: nil))
            let end = try await ledger.head()
            if code == "lost" || code == "409" {
                try await ledger.apply(answer)
            } else {
                // Neither the row nor the record gets another outcome.
                await #expect(throws: LedgerFailure.renewal(.answered(expected))) { try await ledger.apply(answer) }
                #expect(try await ledger.head() == end)
            }
            let found = try await only(ledger)
            #expect(found.renewal.attempts.map(\.outcome) == [expected])
            #expect(found.attempts[0].code == (expected == .unknown ? "lost" : "409"))
        }
        await #expect(throws: LedgerFailure.renewal(.unknown)) {
            try await ledger.apply(
                Self.change(.answer(.random(), of: stored.identifier, .accepted, code: nil, certificate: nil)))
        }
    }

    @Test("keeps the first certificate request and the first certificate")
    func firstOnes() async throws {
        let (fixture, stored) = try await started()
        defer { withExtendedLifetime(fixture) {} }
        let ledger = fixture.ledger
        for byte in [UInt8(1), 2] {
            try await ledger.apply(Self.change(.store(request: [byte], of: stored.identifier)))
            try await ledger.apply(
                Self.change(.found(id: "C\(byte)", certificate: [byte], of: stored.identifier)))
        }
        let found = try await only(ledger)
        #expect(found.request == [1] && found.certificate == [1] && found.renewal.certificateId == "C1")
    }

    @Test("keeps the certificate that Apple's list showed, if a late answer has another one")
    func otherCertificate() async throws {
        let (fixture, stored) = try await started()
        defer { withExtendedLifetime(fixture) {} }
        let ledger = fixture.ledger
        let attempt = attempt()
        try await ledger.apply(Self.change(.begin(attempt, of: stored.identifier, previous: nil)))
        try await ledger.apply(Self.change(.found(id: "C1", certificate: [1], of: stored.identifier)))
        try await ledger.apply(
            Self.change(
                .answer(attempt.identifier, of: stored.identifier, .accepted, code: nil, certificate: ("C2", [2]))))
        let found = try await only(ledger)
        #expect(found.renewal.certificateId == "C1" && found.certificate == [1])
        #expect(found.renewal.attempts.map(\.outcome) == [.accepted])
    }

    @Test("abandons no renewal with an attempt whose effect may still appear")
    func abandonInDoubt() async throws {
        let (fixture, stored) = try await started()
        defer { withExtendedLifetime(fixture) {} }
        let ledger = fixture.ledger
        try await ledger.apply(Self.change(.begin(attempt(), of: stored.identifier, previous: nil)))
        let end = LedgerFixture.noon + Renewal.doubtTime
        await #expect(throws: LedgerFailure.renewal(.inDoubt(until: end))) {
            try await ledger.apply(Self.change(.abandon(stored.identifier), at: end - 1))
        }
        #expect(try await only(ledger).renewal.state == .open)
        try await ledger.apply(Self.change(.abandon(stored.identifier), at: end))
        #expect(try await only(ledger).renewal.state == .abandoned)
    }

    @Test("requests no certificate for a key that an abandoned renewal may have certified, unless a person repeats it")
    func earlierCreation() async throws {
        let (fixture, first) = try await started()
        defer { withExtendedLifetime(fixture) {} }
        let ledger = fixture.ledger
        try await ledger.apply(Self.change(.begin(attempt(), of: first.identifier, previous: nil)))
        let later = LedgerFixture.noon + 3600
        try await ledger.apply(Self.change(.abandon(first.identifier), at: later))
        let second = renewal()
        try await ledger.apply(Self.change(.start(second), at: later))
        await #expect(throws: LedgerFailure.renewal(.earlierCreation)) {
            try await ledger.apply(Self.change(.begin(attempt(), of: second.identifier, previous: nil), at: later))
        }
        let repeated = attempt()
        try await ledger.apply(
            Self.change(
                .begin(repeated, of: second.identifier, previous: nil, repeatsEarlier: true), at: later))
        // The decision holds for this renewal's further attempts.
        try await ledger.apply(
            Self.change(
                .answer(repeated.identifier, of: second.identifier, .refused, code: nil, certificate: nil), at: later))
        try await ledger.apply(
            Self.change(.begin(attempt(number: 2), of: second.identifier, previous: nil), at: later))
    }

    @Test("lets no program change an answered attempt")
    func keptAttempt() async throws {
        let (fixture, stored) = try await started()
        defer { withExtendedLifetime(fixture) {} }
        let ledger = fixture.ledger
        let attempt = attempt()
        try await ledger.apply(Self.change(.begin(attempt, of: stored.identifier, previous: nil)))
        try await ledger.apply(
            Self.change(.answer(attempt.identifier, of: stored.identifier, .refused, code: nil, certificate: nil)))
        await #expect(throws: (any Error).self) {
            try await fixture.change("UPDATE renewal_attempt SET outcome = 'unknown'")
        }
        #expect(try await only(ledger).renewal.attempts.map(\.outcome) == [.refused])
    }

    @Test("stores no attempt for a key whose state has changed meanwhile")
    func changedKey() async throws {
        let (fixture, stored) = try await started()
        defer { withExtendedLifetime(fixture) {} }
        let ledger = fixture.ledger
        try await ledger.store(LedgerFixture.record(Self.key, state: .compromised))
        var change = Self.change(.begin(attempt(), of: stored.identifier, previous: nil))
        (change.key, change.precondition) = (
            LedgerFixture.record(Self.key, state: .preActivation), .state(.preActivation)
        )
        await #expect(throws: LedgerFailure.conflict(.changedMeanwhile)) { try await ledger.apply(change) }
        #expect(try await only(ledger).attempts.isEmpty)
    }

    @Test("names the nodes that have released a payment with a key since a time")
    func releasingNodes() async throws {
        let fixture = try await LedgerFixture()
        defer { withExtendedLifetime(fixture) {} }
        try await fixture.ledger.store(LedgerFixture.record(Self.key))
        let release = try fixture.request(1, key: Self.key)
        #expect(try await fixture.ledger.release(release) == .released)
        let node = fixture.ledger.node
        func nodes(_ key: PublicKeyHash, since time: Date) async throws -> Set<String> {
            try await fixture.ledger.nodes([node, "another"], releasedWith: key, since: time)
        }
        #expect(try await nodes(Self.key, since: release.at) == [node])
        #expect(try await nodes(Self.key, since: release.at + 1) == [])
        #expect(try await nodes(LedgerFixture.hash(3), since: release.at) == [])
    }
}
