import AuditChain
import Foundation
import PaymentToken
import TestSupport
import Testing

@testable import Ledger

extension NamedAttempt {
    /// Makes an attempt with a small number as its name instead of random bytes, for readability.
    init(_ number: UInt8, after others: [UInt8] = []) throws {
        func name(_ number: UInt8) throws -> AttemptName {
            try #require(AttemptName(hex: "00000000000000" + String(UInt16(number) + 0x100, radix: 16).dropFirst()))
        }
        self.init(try name(number), after: try others.map(name))
    }
}

/// Attempts with names. A caller names its earlier attempts with each request, and is refused if a payment was released
/// to an attempt that it does not name.
@Suite("Named attempts", .everyEngine)
struct NamedAttemptTests {
    /// Releases transaction 1 or another one.
    private func release(
        _ fixture: LedgerFixture, _ attempt: UInt8, after others: [UInt8] = [], of number: Int = 1
    ) async throws -> ReleaseVerdict {
        try await fixture.ledger.release(fixture.request(number, named: NamedAttempt(attempt, after: others)))
    }

    @Test("releases the first attempt, regardless of the attempts that it names")
    func first() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        #expect(try await release(fixture, 3, after: [1, 2], of: 2) == .released)
    }

    @Test(
        "repeats for an attempt that names all possible releases after a lost answer, and refuses one that names fewer"
    )
    func lostAnswer() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        // The answer to attempt 2 is lost, so the caller does not know whether it was released.
        #expect(try await release(fixture, 2, after: [1]) == .repeated)
        #expect(try await release(fixture, 3, after: [1]) == .releasedByOther)
        #expect(try await release(fixture, 4, after: [1, 2]) == .repeated)
    }

    @Test("refuses a caller that has forgotten its last attempt, even if it names refused ones")
    func restoredCaller() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        #expect(try await release(fixture, 2, after: [1]) == .repeated)
        // From here on, the caller has forgotten attempt 2.
        #expect(try await release(fixture, 3, after: [1]) == .releasedByOther)
        #expect(try await release(fixture, 4, after: [1, 3]) == .releasedByOther)
        #expect(try await release(fixture, 5) == .releasedByOther)
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        #expect(
            try await again.release(fixture.request(1, named: NamedAttempt(6, after: [1, 3, 4, 5]))) == .releasedByOther
        )
        #expect(try await again.release(fixture.request(1, named: NamedAttempt(7, after: [2]))) == .repeated)
        await again.close()
    }

    @Test("refuses to follow a release without a name, and lets one without a name follow any")
    func unnamed() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        #expect(try await release(fixture, 1) == .releasedByOther)
        #expect(try await release(fixture, 1, of: 2) == .released)
        #expect(try await fixture.ledger.release(fixture.request(2)) == .repeated)
        #expect(try await release(fixture, 2, after: [1], of: 2) == .releasedByOther)
    }

    @Test("refuses to follow an older version's release, whose random bytes are no name")
    func olderVersion() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        try await fixture.overwriteAttempts(with: [UInt8](repeating: 0xA5, count: 16))
        #expect(try await release(fixture, 2, after: [1]) == .releasedByOther)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeated)
    }

    @Test("releases the same request once when it is sent twice")
    func sentTwice() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        #expect(try await release(fixture, 1) == .releasedByOther)
        #expect(try await release(fixture, 2, after: [1]) == .repeated)
        #expect(try await release(fixture, 2, after: [1]) == .releasedByOther)
    }

    @Test("requires caller, reference, content and time for a repeat in addition to the right name")
    func otherConditions() async throws {
        let fixture = try await LedgerFixture(repeatFor: .seconds(60))
        let (ledger, next) = (fixture.ledger, try NamedAttempt(2, after: [1]))
        #expect(try await release(fixture, 1) == .released)
        #expect(try await ledger.release(fixture.request(1, caller: "other", named: next)) == .replayed)
        #expect(try await ledger.release(fixture.request(1, reference: 8, named: next)) == .replayed)
        #expect(try await ledger.release(fixture.request(1, reference: nil, named: next)) == .replayed)
        #expect(try await ledger.release(fixture.request(1, content: 10, named: next)) == .replayed)
        let late = try fixture.request(1, named: next, at: LedgerFixture.noon + 61)
        #expect(try await ledger.release(late) == .replayed)
        // None of the refused attempts has become the last release.
        #expect(try await ledger.release(fixture.request(1, named: next)) == .repeated)
    }

    @Test("records a refused attempt as a replay, and counts it neither as a repeat nor as the last release")
    func refused() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        for _ in 0..<Release.maximumRepeats + 1 { #expect(try await release(fixture, 3) == .releasedByOther) }
        #expect(!fixture.ledger.isUsedUp(try fixture.request(1).transactionId))
        let request = try fixture.request(1, named: NamedAttempt(3))
        let recorded = try await fixture.ledger.release(request, recording: LedgerFixture.record(of: request))
        #expect(recorded == RecordedVerdict(.releasedByOther, sequence: 1))
        #expect(try await fixture.ledger.everyEntry().map(\.outcome) == ["transaction_replayed"])
        #expect(try await release(fixture, 2, after: [1]) == .repeated)
    }

    @Test("counts an attempt that was opened and then refused as a repeat, and keeps the last release")
    func openedAndRefused() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        for attempt in UInt8(2)...3 {
            try await fixture.ledger.countRefusedRepeat(fixture.request(1, named: NamedAttempt(attempt, after: [1])))
        }
        // A refused repeat without a name does not become the last release either.
        try await fixture.ledger.countRefusedRepeat(fixture.request(1))
        // This request does not count as a repeat, because it names attempts that were not released.
        try await fixture.ledger.countRefusedRepeat(fixture.request(1, named: NamedAttempt(4, after: [2, 3])))
        #expect(try await release(fixture, 5, after: [2, 3]) == .releasedByOther)
        for attempt in UInt8(6)..<102 {
            #expect(try await release(fixture, attempt, after: [1, attempt - 1]) == .repeated)
        }
        #expect(try await release(fixture, 102, after: [101]) == .repeated)
        #expect(try await release(fixture, 103, after: [102]) == .repeatedTooOften)
    }

    @Test("predicts a refusal without changing anything")
    func look() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        let first = try fixture.request(1, named: NamedAttempt(1))
        #expect(try await ledger.wouldRepeat(first) == .unclaimed)
        #expect(try await ledger.release(first) == .released)
        #expect(try await ledger.wouldRepeat(fixture.request(1, named: NamedAttempt(2, after: [1]))) == .yes)
        #expect(try await ledger.wouldRepeat(fixture.request(1, named: NamedAttempt(2))) == .byOther)
        #expect(try await ledger.wouldRepeat(fixture.request(1)) == .yes)
        // The same request counts as a repeat of its own release, whose commit may not have been acknowledged. Another
        // request with the same name does not.
        #expect(try await ledger.wouldRepeat(first) == .yes)
        #expect(try await ledger.wouldRepeat(fixture.request(1, named: NamedAttempt(1))) == .byOther)
        #expect(try await release(fixture, 2, after: [1]) == .repeated)
    }

    // MARK: Simultaneous attempts

    @Test("releases one of thirty simultaneous attempts that name none")
    func thirtyFirst() async throws {
        let verdicts = try await thirty { try NamedAttempt($0) }
        #expect(verdicts.count { $0 == .released } == 1 && verdicts.count { $0 == .releasedByOther } == 29)
    }

    @Test("repeats for exactly one of thirty simultaneous attempts that follow the same one")
    func thirtyAfterOne() async throws {
        let verdicts = try await thirty(afterRelease: 200) { try NamedAttempt($0, after: [200]) }
        #expect(verdicts.count { $0 == .repeated } == 1 && verdicts.count { $0 == .releasedByOther } == 29)
    }

    @Test("releases thirty simultaneous attempts that name each other, one after the other")
    func thirtyAfterEachOther() async throws {
        let everyone = (UInt8(1)...30).map { $0 }
        let verdicts = try await thirty { attempt in try NamedAttempt(attempt, after: everyone.filter { $0 != attempt })
        }
        #expect(verdicts.count { $0 == .released } == 1 && verdicts.count { $0 == .repeated } == 29)
    }

    private func thirty(
        afterRelease first: UInt8? = nil, _ named: (UInt8) throws -> NamedAttempt
    ) async throws -> [ReleaseVerdict] {
        let fixture = try await LedgerFixture()
        if let first { #expect(try await release(fixture, first) == .released) }
        let requests = try (UInt8(1)...30).map { try fixture.request(1, named: named($0)) }
        return try await withThrowingTaskGroup(of: ReleaseVerdict.self) { group in
            for request in requests { group.addTask { try await fixture.ledger.release(request) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    // MARK: One batch

    @Test("lets each attempt in a batch follow the release before it, in the order of arrival")
    func batch() async throws {
        let fixture = try await LedgerFixture()
        let verdicts = try await inOneBatch(
            fixture,
            [
                (1, try NamedAttempt(1)), (1, try NamedAttempt(2)), (1, try NamedAttempt(3, after: [1, 2])),
                (1, try NamedAttempt(4, after: [1, 2])), (1, try NamedAttempt(5, after: [3])), (1, nil),
                (1, try NamedAttempt(6, after: [1, 2, 3, 4, 5])),
            ])
        #expect(
            verdicts == [
                .released, .releasedByOther, .repeated, .releasedByOther, .repeated, .repeated, .releasedByOther,
            ])
        // The batch's last release was the attempt without a name, so no later attempt can name it.
        #expect(try await release(fixture, 7, after: [1, 2, 3, 4, 5, 6]) == .releasedByOther)
    }

    @Test("continues in the next batch from the last release that a batch stored")
    func batchThenNext() async throws {
        let fixture = try await LedgerFixture()
        let verdicts = try await inOneBatch(
            fixture,
            [(1, try NamedAttempt(1)), (1, try NamedAttempt(2, after: [1])), (1, try NamedAttempt(3, after: [1]))])
        #expect(verdicts == [.released, .repeated, .releasedByOther])
        #expect(try await release(fixture, 4, after: [1, 3]) == .releasedByOther)
        #expect(try await release(fixture, 5, after: [2]) == .repeated)
    }

    @Test("keeps transactions apart that have one attempt name, in one batch and with different callers")
    func equalNames() async throws {
        let fixture = try await LedgerFixture()
        let same = try NamedAttempt(1)
        // Another caller released transaction 1 under the same name.
        #expect(try await fixture.ledger.release(fixture.request(1, caller: "other", named: same)) == .released)
        let verdicts = try await inOneBatch(
            fixture, [(1, same), (2, same), (3, same), (1, same), (2, same), (4, same)])
        #expect(verdicts == [.replayed, .released, .released, .replayed, .releasedByOther, .released])
        for number in 2...4 { #expect(try await release(fixture, 2, after: [1], of: number) == .repeated) }
        let next = try fixture.request(1, caller: "other", named: NamedAttempt(2, after: [1]))
        #expect(try await fixture.ledger.release(next) == .repeated)
    }

    private func inOneBatch(
        _ fixture: LedgerFixture, _ attempts: [(transaction: Int, named: NamedAttempt?)]
    ) async throws -> [ReleaseVerdict] {
        let requests = try attempts.map { try fixture.request($0.transaction, named: $0.named) }
        let before = fixture.events.committed.count
        let answers = try await fixture.inOneBatch(
            requests.map { request in
                { ledger in try await ledger.release(request, recording: LedgerFixture.record(of: request)) }
            })
        #expect(fixture.events.committed.dropFirst(before) == [attempts.count])
        return try answers.map { try $0.get().verdict }
    }

    // MARK: Lost acknowledgements and failed commits

    @Test("answers the attempts of an unacknowledged commit that took place, and keeps its last as the last release")
    func acknowledgementLost() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        fixture.loseAcknowledgement()
        let verdicts = try await inOneBatchInDoubt(fixture)
        #expect(fixture.lostAcknowledgements == 1)
        #expect(verdicts == [.released, .repeated, .releasedByOther])
        #expect(try await release(fixture, 4, after: [1, 3]) == .releasedByOther)
        #expect(try await release(fixture, 5, after: [1, 2]) == .repeated)
        // Without an audit record, the claim itself shows that the commit took place.
        fixture.loseAcknowledgement()
        #expect(try await release(fixture, 6, after: [5]) == .repeated)
        #expect(fixture.lostAcknowledgements == 2)
    }

    private func inOneBatchInDoubt(_ fixture: LedgerFixture) async throws -> [ReleaseVerdict] {
        let requests = try [NamedAttempt(1), NamedAttempt(2, after: [1]), NamedAttempt(3, after: [1])].map {
            try fixture.request(1, named: $0)
        }
        return try await fixture.inOneBatch(
            requests.map { request in
                { ledger in try await ledger.release(request, recording: LedgerFixture.record(of: request)) }
            }
        ).map { try $0.get().verdict }
    }

    @Test("keeps the last release after a commit that failed, and the refusals of equal names")
    func commitFailed() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        #expect(try await release(fixture, 1) == .released)
        let others = try fixture.request(2, caller: "other", named: NamedAttempt(1))
        #expect(try await fixture.ledger.release(others) == .released)
        try await fixture.breakCommits()
        let requests = [
            // This request would have been released.
            try fixture.request(1, named: NamedAttempt(2, after: [1])),
            // These requests are refused for other reasons.
            try fixture.request(1, named: NamedAttempt(2)), try fixture.request(2, named: NamedAttempt(2)),
        ]
        let answers = try await fixture.inOneBatch(
            requests.map { request in { ledger in try await ledger.release(request, recording: nil) } })
        try await fixture.repairCommits()
        #expect(throws: LedgerFailure.self) { try answers[0].get() }
        #expect(try answers[1].get().verdict == .releasedByOther)
        #expect(try answers[2].get().verdict == .replayed)
        #expect(try await release(fixture, 3, after: [2]) == .releasedByOther)
        #expect(try await release(fixture, 3, after: [1]) == .repeated)
    }
}

extension LedgerFixture {
    /// Overwrites the attempt of every claim, as an older version would leave it.
    fileprivate func overwriteAttempts(with bytes: [UInt8]) async throws {
        switch store {
        case .sqlite:
            try await sqlite.connections.write { db in
                _ = try db.run("UPDATE claim SET attempt = $1", [.bytes(bytes)])
            }
        case .postgresql(let database, _):
            let hex = bytes.map { String($0, radix: 16) }.joined()
            try await database.sql("UPDATE claim SET attempt = '\\x\(hex)'")
        }
    }
}

@Suite("An attempt's name, and its bytes in a claim")
struct AttemptNameTests {
    @Test("accepts 16 lower-case hexadecimal digits that are not all zero")
    func form() {
        #expect(AttemptName(hex: "0123456789abcdef") != nil && AttemptName(hex: "0000000000000001") != nil)
        for text in [
            "", "0000000000000000", "0123456789ABCDEF", "0123456789abcde", "0123456789abcdef0", "0123456789abcdef00",
            "0123456789abcdeg", " 123456789abcdef", "0x23456789abcdef", "0123456789abcdé",
        ] {
            #expect(AttemptName(hex: text) == nil, "\(text)")
        }
    }

    @Test("stores the name and 8 random bytes that differ each time, and zeros for no name")
    func stored() throws {
        let name = try #require(AttemptName(hex: "0123456789abcdef"))
        let stored = (0..<100).map { _ in StoredAttempt.make(name) }
        #expect(
            stored.allSatisfy { $0.count == 16 && $0.prefix(8) == [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF] })
        #expect(stored.allSatisfy { StoredAttempt.name(in: $0) == name })
        #expect(Set(stored).count == 100)
        let unnamed = (0..<100).map { _ in StoredAttempt.make(nil) }
        #expect(unnamed.allSatisfy { $0.count == 16 && $0.prefix(8).allSatisfy { $0 == 0 } })
        #expect(unnamed.allSatisfy { StoredAttempt.name(in: $0) == nil })
        #expect(Set(unnamed).count == 100)
    }
}
