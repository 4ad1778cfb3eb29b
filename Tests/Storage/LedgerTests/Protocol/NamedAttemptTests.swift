import AuditChain
import Foundation
import PaymentToken
import TestSupport
import Testing

@testable import Ledger

extension NamedAttempt {
    /// Of small numbers instead of random ones, so that a test reads.
    init(_ number: UInt8, after others: [UInt8] = []) throws {
        func name(_ number: UInt8) throws -> AttemptName {
            try #require(AttemptName(hex: "00000000000000" + String(UInt16(number) + 0x100, radix: 16).dropFirst()))
        }
        self.init(try name(number), after: try others.map(name))
    }
}

/// A caller that says after whom it may be released gets no payment that somebody else was given in between.
@Suite("Named attempts", .everyEngine)
struct NamedAttemptTests {
    /// Releases transaction 1, or another one.
    private func release(
        _ fixture: LedgerFixture, _ attempt: UInt8, after others: [UInt8] = [], of number: Int = 1
    ) async throws -> ReleaseVerdict {
        try await fixture.ledger.release(fixture.request(number, named: NamedAttempt(attempt, after: others)))
    }

    @Test("The first one is released, whomever it names")
    func first() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        #expect(try await release(fixture, 3, after: [1, 2], of: 2) == .released)
    }

    @Test(
        "After a lost answer the next attempt names all that may have been released, and one that names fewer is refused"
    )
    func lostAnswer() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        // Its answer gets lost.
        #expect(try await release(fixture, 2, after: [1]) == .repeated)
        #expect(try await release(fixture, 3, after: [1]) == .releasedByOther)
        #expect(try await release(fixture, 4, after: [1, 2]) == .repeated)
    }

    @Test("A caller that has forgotten its last attempt is refused, also when it names those that were refused")
    func restoredCaller() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        #expect(try await release(fixture, 2, after: [1]) == .repeated)
        // From here on 2 is not known any more.
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

    @Test("It does not follow a release that has no name, and one without a name follows any")
    func unnamed() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        #expect(try await release(fixture, 1) == .releasedByOther)
        #expect(try await release(fixture, 1, of: 2) == .released)
        #expect(try await fixture.ledger.release(fixture.request(2)) == .repeated)
        #expect(try await release(fixture, 2, after: [1], of: 2) == .releasedByOther)
    }

    @Test("It does not follow the release of a version that wrote random bytes, which are nobody's name")
    func olderVersion() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        try await fixture.overwriteAttempts(with: [UInt8](repeating: 0xA5, count: 16))
        #expect(try await release(fixture, 2, after: [1]) == .releasedByOther)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeated)
    }

    @Test("The same request sent twice is released once")
    func sentTwice() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        #expect(try await release(fixture, 1) == .releasedByOther)
        #expect(try await release(fixture, 2, after: [1]) == .repeated)
        #expect(try await release(fixture, 2, after: [1]) == .releasedByOther)
    }

    @Test("The right name alone makes no repeat: caller, reference, content and time count as ever")
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
        // None of these became the last.
        #expect(try await ledger.release(fixture.request(1, named: next)) == .repeated)
    }

    @Test("One that is refused is not the last release, counts as no repeat, and is recorded as a replay")
    func refused() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        for _ in 0..<Release.mostRepeats + 1 { #expect(try await release(fixture, 3) == .releasedByOther) }
        #expect(!fixture.ledger.isUsedUp(try fixture.request(1).transactionId))
        let request = try fixture.request(1, named: NamedAttempt(3))
        let recorded = try await fixture.ledger.release(request, recording: LedgerFixture.record(of: request))
        #expect(recorded == RecordedVerdict(.releasedByOther, sequence: 1))
        #expect(try await fixture.ledger.everyEntry().map(\.outcome) == ["transaction_replayed"])
        #expect(try await release(fixture, 2, after: [1]) == .repeated)
    }

    @Test("One that was opened and then refused counts as a repeat, and the last release stays who it was")
    func openedAndRefused() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await release(fixture, 1) == .released)
        for attempt in UInt8(2)...3 {
            try await fixture.ledger.countRefusedRepeat(fixture.request(1, named: NamedAttempt(attempt, after: [1])))
        }
        // Without a name neither.
        try await fixture.ledger.countRefusedRepeat(fixture.request(1))
        // Not one of the repeats: it would not have been released.
        try await fixture.ledger.countRefusedRepeat(fixture.request(1, named: NamedAttempt(4, after: [2, 3])))
        #expect(try await release(fixture, 5, after: [2, 3]) == .releasedByOther)
        for attempt in UInt8(6)..<102 {
            #expect(try await release(fixture, attempt, after: [1, attempt - 1]) == .repeated)
        }
        #expect(try await release(fixture, 102, after: [101]) == .repeated)
        #expect(try await release(fixture, 103, after: [102]) == .repeatedTooOften)
    }

    @Test("What would be refused is known before, and changes nothing")
    func look() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        let first = try fixture.request(1, named: NamedAttempt(1))
        #expect(try await ledger.wouldRepeat(first) == .no)
        #expect(try await ledger.release(first) == .released)
        #expect(try await ledger.wouldRepeat(fixture.request(1, named: NamedAttempt(2, after: [1]))) == .yes)
        #expect(try await ledger.wouldRepeat(fixture.request(1, named: NamedAttempt(2))) == .byOther)
        #expect(try await ledger.wouldRepeat(fixture.request(1)) == .yes)
        // Its own release, whose commit was not acknowledged, is nobody else's; a request of the same name is.
        #expect(try await ledger.wouldRepeat(first) == .yes)
        #expect(try await ledger.wouldRepeat(fixture.request(1, named: NamedAttempt(1))) == .byOther)
        #expect(try await release(fixture, 2, after: [1]) == .repeated)
    }

    // MARK: Simultaneous ones

    @Test("Of thirty at once that name nobody one is released")
    func thirtyFirst() async throws {
        let verdicts = try await thirty { try NamedAttempt($0) }
        #expect(verdicts.count { $0 == .released } == 1 && verdicts.count { $0 == .releasedByOther } == 29)
    }

    @Test("Of thirty at once after the same one exactly one is the repeat")
    func thirtyAfterOne() async throws {
        let verdicts = try await thirty(afterRelease: 200) { try NamedAttempt($0, after: [200]) }
        #expect(verdicts.count { $0 == .repeated } == 1 && verdicts.count { $0 == .releasedByOther } == 29)
    }

    @Test("Thirty at once that name each other are all released, one after the other")
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

    @Test("In one batch each follows the release before it, in the order in which they came")
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
        // What the batch has stored is what it decided by.
        #expect(try await release(fixture, 7, after: [1, 2, 3, 4, 5, 6]) == .releasedByOther)
    }

    @Test("In one batch the last release that it stores is the one that the next batch goes by")
    func batchThenNext() async throws {
        let fixture = try await LedgerFixture()
        let verdicts = try await inOneBatch(
            fixture,
            [(1, try NamedAttempt(1)), (1, try NamedAttempt(2, after: [1])), (1, try NamedAttempt(3, after: [1]))])
        #expect(verdicts == [.released, .repeated, .releasedByOther])
        #expect(try await release(fixture, 4, after: [1, 3]) == .releasedByOther)
        #expect(try await release(fixture, 5, after: [2]) == .repeated)
    }

    @Test("One name for different transactions, in one batch and by different callers, confuses none of them")
    func equalNames() async throws {
        let fixture = try await LedgerFixture()
        let same = try NamedAttempt(1)
        // Transaction 1 is another caller's, released under the very same name.
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

    // MARK: What was not acknowledged, and what was not written

    @Test("A commit that was not acknowledged and stands counts: its attempts are answered, and the last is the last")
    func acknowledgementLost() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        fixture.loseAcknowledgement()
        let verdicts = try await inOneBatchInDoubt(fixture)
        #expect(fixture.lostAcknowledgements == 1)
        #expect(verdicts == [.released, .repeated, .releasedByOther])
        #expect(try await release(fixture, 4, after: [1, 3]) == .releasedByOther)
        #expect(try await release(fixture, 5, after: [1, 2]) == .repeated)
        // Without a record it is found by the claim.
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

    @Test("A commit that did not take place leaves the last release as it was, and equal names keep their own refusals")
    func commitFailed() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        #expect(try await release(fixture, 1) == .released)
        let others = try fixture.request(2, caller: "other", named: NamedAttempt(1))
        #expect(try await fixture.ledger.release(others) == .released)
        try await fixture.breakCommits()
        let requests = [
            // Released if it could be written.
            try fixture.request(1, named: NamedAttempt(2, after: [1])),
            // Refused by what stands, each for its own reason.
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
    /// As an older version left all claims.
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

@Suite("An attempt's name, and what a claim keeps of it")
struct AttemptNameTests {
    @Test("It is 16 lower-case hexadecimal digits that are not all zero")
    func form() {
        #expect(AttemptName(hex: "0123456789abcdef") != nil && AttemptName(hex: "0000000000000001") != nil)
        for text in [
            "", "0000000000000000", "0123456789ABCDEF", "0123456789abcde", "0123456789abcdef0", "0123456789abcdef00",
            "0123456789abcdeg", " 123456789abcdef", "0x23456789abcdef", "0123456789abcdé",
        ] {
            #expect(AttemptName(hex: text) == nil, "\(text)")
        }
    }

    @Test("A claim keeps the name and 8 random bytes, which differ each time; zeros where there is none")
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
