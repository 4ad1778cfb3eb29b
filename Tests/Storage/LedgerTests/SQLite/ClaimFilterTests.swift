import Foundation
import PaymentToken
import TestSupport
import Testing

@testable import Ledger
@testable import SQLiteLedger

/// The filter by which a message of Google Pay without a claim needs no read of the ledger.
@Suite("The filter of Google Pay's claims")
struct ClaimFilterTests {
    private let hang = Hang()

    private static func message(_ number: Int, caller: String = "checkout") throws -> Release {
        try GooglePayClaimTests.message(number, messageId: number, caller: caller)
    }

    private static func filled(_ ledger: SQLiteLedger) async throws {
        try await wait(for: "the filter") { ledger.claimFilter.isComplete }
    }

    @Test("has each inserted name, and lacks nearly all others")
    func names() async throws {
        let fixture = try await LedgerFixture()
        try await Self.filled(fixture.sqlite)
        let filter = fixture.sqlite.claimFilter
        let (inserted, others) = (try Self.randomNames(), try Self.randomNames())
        for name in inserted { filter.insert(name) }
        #expect(inserted.allSatisfy(filter.mayHave))
        #expect(others.filter(filter.mayHave).count < 10)
    }

    private static func randomNames() throws -> [TransactionIdentifier] {
        try (0..<10_000).map { _ in
            try #require(TransactionIdentifier(bytes: Release.randomIdentifier() + Release.randomIdentifier()))
        }
    }

    @Test("may have any name until the ledger's claims were read")
    func incomplete() throws {
        let filter = ClaimFilter()
        #expect(try filter.mayHave(Self.message(1).transactionId))
    }

    @Test("reports once that the claims cannot be read")
    func unreadable() async throws {
        let fixture = try await GooglePayClaimTests.fixture()
        try await Self.filled(fixture.sqlite)
        let events = LedgerEvents()
        try FileManager.default.moveItem(atPath: fixture.sqlite.path, toPath: fixture.sqlite.path + ".moved")
        fixture.sqlite.fillClaimFilter(events.add)
        try await wait(for: "the failure") { !events.all.isEmpty }
        try FileManager.default.moveItem(atPath: fixture.sqlite.path + ".moved", toPath: fixture.sqlite.path)
        await fixture.ledger.close()
        let reasons = events.all.compactMap { event in
            if case .claimsUnread(let reason) = event { reason } else { nil }
        }
        #expect(reasons.count == 1 && events.all.count == 1, "\(events.all)")
    }

    @Test("answers for a message without a claim while the disk hangs, and leaves one with a claim to a read")
    func withoutRead() async throws {
        let fixture = try await GooglePayClaimTests.fixture()
        let ledger = fixture.sqlite
        #expect(try await ledger.release(Self.message(1)) == .released)
        try await Self.filled(ledger)
        defer { hang.end() }
        hang.begin()
        let blocking = Begun { [hang] in try? await ledger.connections.reader.read { _ in hang.pass() } }
        try await hang.waitUntilBlocking()
        let claimed = Begun { try? await ledger.wouldRepeat(Self.message(1, caller: "other")) }
        #expect(try await ledger.wouldRepeat(Self.message(2)) == .unclaimed)
        try await wait(for: "the read") { ledger.connections.reader.waiting == 2 }
        #expect(!claimed.hasEnded)
        hang.end()
        #expect(try await claimed.value() == .no)
        #expect(try await blocking.value() != nil)
    }

    @Test("has the claims of former processes, and those whose commit is not acknowledged")
    func formerClaims() async throws {
        let fixture = try await GooglePayClaimTests.fixture(isFaulty: true)
        try await Self.filled(fixture.sqlite)
        for number in 1...3 { #expect(try await fixture.ledger.release(Self.message(number)) == .released) }
        fixture.loseAcknowledgement()
        #expect(try await fixture.ledger.release(Self.message(4)) == .released)
        #expect(fixture.lostAcknowledgements == 1)
        #expect(try await fixture.ledger.wouldRepeat(Self.message(4, caller: "other")) == .no)
        await fixture.ledger.close()
        let again = try #require(try await fixture.reopened() as? SQLiteLedger)
        try await Self.filled(again)
        for number in 1...4 {
            #expect(try await again.wouldRepeat(Self.message(number)) == .yes)
            #expect(try await again.wouldRepeat(Self.message(number, caller: "other")) == .no)
        }
        #expect(try await again.wouldRepeat(Self.message(5)) == .unclaimed)
        await again.close()
    }

    @Test("reads more claims than one read returns")
    func manyClaims() async throws {
        let fixture = try await GooglePayClaimTests.fixture()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    for part in 0..<600 { _ = try await fixture.ledger.release(Self.message(number * 600 + part)) }
                }
            }
            try await group.waitForAll()
        }
        await fixture.ledger.close()
        let again = try #require(try await fixture.reopened() as? SQLiteLedger)
        try await Self.filled(again)
        for number in 0..<12_000 { #expect(try again.claimFilter.mayHave(Self.message(number).transactionId)) }
        await again.close()
    }

    @Test("keeps the name of a claim that was not committed, which costs a read alone")
    func uncommitted() async throws {
        let fixture = try await GooglePayClaimTests.fixture(isFaulty: true)
        try await Self.filled(fixture.sqlite)
        try await fixture.breakCommits()
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.release(Self.message(1)) }
        try await fixture.repairCommits()
        #expect(try fixture.sqlite.claimFilter.mayHave(Self.message(1).transactionId))
        #expect(try await fixture.ledger.wouldRepeat(Self.message(1)) == .unclaimed)
        #expect(try await fixture.ledger.release(Self.message(1)) == .released)
    }
}
