import AuditChain
import Foundation
import MerchantKeys
import TestSupport
import Testing

@testable import Ledger

@Suite("Group commit", .everyEngine)
struct GroupCommitTests {
    private let signer = CheckpointSigner()

    @Test("writes what arrives during a commit in the next one")
    func oneCommit() async throws {
        let fixture = try await LedgerFixture()
        let before = fixture.events.committed.count
        let answers = try await fixture.inOneBatch(try (1...40).map { try fixture.releasing($0) })
        #expect(try answers.map { try $0.get().verdict } == Array(repeating: .released, count: 40))
        #expect(try answers.map { try $0.get().sequence } == (1...40).map { $0 })
        #expect(fixture.events.committed.dropFirst(before) == [40])
    }

    @Test(
        "releases one of thirty equal requests in a batch; the others are repeats with a reference, replays without",
        arguments: [UInt8?.none, 7])
    func thirtyInOneBatch(reference: UInt8?) async throws {
        let fixture = try await LedgerFixture()
        let answers = try await fixture.inOneBatch(
            try (1...30).map { _ in try fixture.releasing(1, reference: reference) })
        let expected = Array(repeating: reference == nil ? ReleaseVerdict.replayed : .repeated, count: 29)
        #expect(try answers.map { try $0.get().verdict } == [.released] + expected)
        let outcomes = try await fixture.ledger.everyEntry().map(\.outcome)
        #expect(outcomes == ["ok"] + Array(repeating: reference == nil ? "transaction_replayed" : "repeat", count: 29))
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 30)
    }

    @Test("refuses a release that follows its key's suspension in a batch, and grants one that precedes it")
    func orderInside() async throws {
        let fixture = try await LedgerFixture()
        let (first, second) = (try fixture.releasing(1), try fixture.releasing(2))
        let suspended = LedgerFixture.record(fixture.key, state: .suspended)
        let operations: [@Sendable (any TestedLedger) async throws -> ReleaseVerdict?] = [
            { try await first($0).verdict },
            { ledger in
                try await ledger.store(suspended)
                return nil
            },
            { try await second($0).verdict },
        ]
        let answers = try await fixture.inOneBatch(operations)
        #expect(try answers.map { try $0.get() } == [.released, nil, .keyNotActive])
        #expect(try await fixture.ledger.everyEntry().map(\.outcome) == ["ok", "key_not_active"])
    }

    @Test("answers each member of a batch by what was committed when the acknowledgement is lost")
    func acknowledgementLost() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        fixture.loseAcknowledgement()
        var operations = try (1...10).map { try fixture.releasing($0) }
        operations += try (1...10).map { try fixture.releasing($0) }
        operations += try (1...10).map { try fixture.releasing($0, reference: nil) }
        let answers = try await fixture.inOneBatch(operations)
        #expect(fixture.lostAcknowledgements == 1)
        let kinds: [ReleaseVerdict] = [.released, .repeated, .replayed]
        #expect(try answers.map { try $0.get().verdict } == kinds.flatMap { Array(repeating: $0, count: 10) })
        #expect(try answers.map { try $0.get().sequence } == (1...30).map { $0 })
        for number in 1...10 {
            #expect(try await fixture.ledger.release(fixture.request(number, reference: nil)) == .replayed)
        }
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 30)
    }

    @Test("releases no member of a batch that fails, keeps the refusals' codes, and leaves no gap in the chain")
    func batchFailed() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        let suspended = LedgerFixture.hash(2)
        try await fixture.ledger.store(LedgerFixture.record(suspended, state: .suspended))
        try await fixture.breakCommits()
        let notActive = try fixture.request(30, key: suspended)
        var operations = [try fixture.releasing(1, reference: nil)]
        operations.append { try await $0.release(notActive, recording: LedgerFixture.record(of: notActive)) }
        operations += try (2...20).map { try fixture.releasing($0) }
        // This is a replay only if the batch's earlier release was committed.
        operations.append(try fixture.releasing(2, reference: nil))
        let answers = try await fixture.inOneBatch(operations)
        #expect(try await fixture.ledger.head().sequence == 0)
        try await fixture.repairCommits()
        #expect(try answers[0].get() == RecordedVerdict(.replayed, sequence: nil))
        #expect(try answers[1].get() == RecordedVerdict(.keyNotActive, sequence: nil))
        for answer in answers.dropFirst(2) {
            #expect(throws: LedgerFailure.self) { try answer.get() }
        }
        for number in 2...20 {
            let request = try fixture.request(number, reference: nil)
            let recorded = try await fixture.ledger.release(request, recording: LedgerFixture.record(of: request))
            #expect(recorded == RecordedVerdict(.released, sequence: number - 1))
        }
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 19)
    }

    @Test("fails a member that cannot be written alone, and leaves no gap")
    func poisonedMember() async throws {
        let fixture = try await LedgerFixture()
        try await fixture.poison("poison")
        var operations = try (1...5).map { try fixture.releasing($0) }
        operations.insert(try fixture.releasing(100, caller: "poison"), at: 2)
        let answers = try await fixture.inOneBatch(operations)
        #expect(throws: LedgerFailure.self) { try answers[2].get() }
        #expect(try (answers[..<2] + answers[3...]).map { try $0.get().sequence } == (1...5).map { $0 })
        // A refusal keeps its code even if its record cannot be written.
        let replay = try await fixture.releasing(1, caller: "poison")(fixture.ledger)
        #expect(replay == RecordedVerdict(.replayed, sequence: nil))
        // The claim of transaction 100 was undone together with its record, so the transaction can be released.
        #expect(try await fixture.ledger.release(fixture.request(100, reference: nil)) == .released)
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 5)
    }

    @Test("refuses a call at once when the queue is full, and answers those that wait")
    func overflow() async throws {
        let fixture = try await LedgerFixture(waiting: 8)
        let pause = await WriterPause(fixture.ledger)
        async let waiting = withThrowingTaskGroup(of: ReleaseVerdict.self) { group in
            for number in 1...8 {
                let request = try fixture.request(number)
                group.addTask { try await fixture.ledger.release(request) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        try await pause.wait(for: 8)
        await #expect(throws: LedgerFailure.overloaded) { try await fixture.ledger.release(fixture.request(9)) }
        await #expect(throws: LedgerFailure.overloaded) { try await fixture.ledger.probe() }
        pause.end()
        #expect(try await waiting == Array(repeating: .released, count: 8))
        #expect(try await fixture.ledger.release(fixture.request(9, reference: nil)) == .released)
    }

    @Test("writes what waits when the ledger is closed, and refuses what comes later")
    func closing() async throws {
        let fixture = try await LedgerFixture()
        let pause = await WriterPause(fixture.ledger)
        let request = try fixture.request(1)
        async let verdict = fixture.ledger.release(request, recording: LedgerFixture.record(of: request))
        try await pause.wait(for: 1)
        async let closed: Void = fixture.ledger.close()
        // This call may arrive before or after the closing, but must return in either case.
        _ = try? await fixture.ledger.head()
        pause.end()
        #expect(try await verdict == RecordedVerdict(.released, sequence: 1))
        await closed
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.release(fixture.request(2)) }
        let again = try await fixture.reopened()
        #expect(try await again.release(fixture.request(1, reference: nil)) == .replayed)
        await again.close()
    }
}
