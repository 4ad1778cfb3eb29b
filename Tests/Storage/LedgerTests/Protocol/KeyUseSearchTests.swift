import AuditChain
import Foundation
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

/// Searches for the last use of a key that may be unused.
@Suite("Searches for a key's last use", .everyEngine)
struct KeyUseSearchTests {
    private static let old = LedgerFixture.hash(60)
    private static let (noon, day) = (LedgerFixture.noon, 86_400.0)

    /// A ledger with a key that may be unused, and with a release of the fixture's key on each of the last ten days.
    private func fixture() async throws -> LedgerFixture {
        let fixture = try await LedgerFixture()
        try await fixture.ledger.store(LedgerFixture.record(Self.old))
        for number in 0..<10 { try await release(number, daysAgo: Double(number), in: fixture) }
        return fixture
    }

    private func release(
        _ number: Int, _ key: PublicKeyHash? = nil, daysAgo days: Double, in fixture: LedgerFixture
    ) async throws {
        let release = try fixture.request(number, key: key, at: Self.noon - days * Self.day)
        let verdict = try await fixture.ledger.release(release, recording: LedgerFixture.record(of: release)).verdict
        #expect(verdict == .released)
    }

    private func lastUse(
        _ searches: KeyUseSearches, _ key: PublicKeyHash = old, days: Double = 30, in fixture: LedgerFixture
    ) async throws(LedgerFailure) -> Date? {
        try await searches.lastUse(
            of: key, since: Self.noon - days * Self.day, now: Self.noon, in: fixture.ledger)
    }

    @Test("finds the newest use of the period, also one after now, and none of another key or before the period")
    func newest() async throws {
        let (fixture, searches) = (try await fixture(), KeyUseSearches())
        #expect(try await lastUse(searches, in: fixture) == nil)
        #expect(try await lastUse(searches, fixture.key, in: fixture) == Self.noon)
        try await release(20, Self.old, daysAgo: 40, in: fixture)
        #expect(try await lastUse(searches, in: fixture) == nil)
        #expect(try await lastUse(searches, days: 40, in: fixture) == Self.noon - 40 * Self.day)
        try await release(21, Self.old, daysAgo: 30, in: fixture)
        try await release(22, Self.old, daysAgo: 2.5, in: fixture)
        #expect(try await lastUse(searches, in: fixture) == Self.noon - 2.5 * Self.day)
        try await release(23, Self.old, daysAgo: -1, in: fixture)
        #expect(try await lastUse(searches, in: fixture) == Self.noon + Self.day)
    }

    @Test("reads a day with each statement, continues after a time-out, and then reads no claim twice")
    func steps() async throws {
        let (fixture, searches) = (try await fixture(), KeyUseSearches(longest: .zero))
        for step in 1..<5 {
            await #expect(throws: LedgerFailure.timedOut(after: .zero, mayBeWritten: false), "\(step)") {
                try await lastUse(searches, days: 5, in: fixture)
            }
        }
        #expect(try await lastUse(searches, days: 5, in: fixture) == nil)
        // Releases with another key, repeats and refusals show no use.
        try await release(20, daysAgo: 0, in: fixture)
        _ = try await fixture.releasing(20)(fixture.ledger)
        for _ in 0..<3 { #expect(try await lastUse(searches, days: 5, in: fixture) == nil) }
        // A longer period is searched from where the shorter one began.
        await #expect(throws: LedgerFailure.timedOut(after: .zero, mayBeWritten: false)) {
            try await lastUse(searches, days: 7, in: fixture)
        }
        #expect(try await lastUse(searches, days: 7, in: fixture) == nil)
    }

    @Test(
        "finds a later release of a host with a late clock, in the middle of a search and after its end",
        arguments: [1, 5])
    func lateClock(steps: Int) async throws {
        let (fixture, searches) = (try await fixture(), KeyUseSearches(longest: .zero))
        for _ in 0..<steps { _ = try? await lastUse(searches, days: 5, in: fixture) }
        // The claim has a time of the day that was searched first.
        try await release(20, Self.old, daysAgo: 0.5, in: fixture)
        #expect(try await lastUse(searches, days: 5, in: fixture) == Self.noon - Self.day / 2)
    }

    @Test("searches again from the beginning in a ledger with another or a shorter chain", arguments: [0, 12])
    func restored(more: Int) async throws {
        let (before, searches) = (try await fixture(), KeyUseSearches())
        #expect(try await lastUse(searches, in: before) == nil)
        let after = try await LedgerFixture()
        try await after.ledger.store(LedgerFixture.record(Self.old))
        try await release(50, Self.old, daysAgo: 3, in: after)
        for number in 0..<more { try await release(number, daysAgo: 0, in: after) }
        #expect(try await lastUse(searches, in: after) == Self.noon - 3 * Self.day)
    }
}

/// Searches in a ledger of several nodes.
@Suite("Searches for a key's last use on other nodes")
struct KeyUseSearchNodesTests {
    @Test("finds later releases of known and of new nodes")
    func nodes() async throws {
        let fixture = try await PostgreSQLFixture()
        let old = LedgerFixture.hash(60)
        try await fixture.ledger.store(LedgerFixture.record(old))
        let (searches, noon) = (KeyUseSearches(), LedgerFixture.noon)
        let other = try await fixture.node("node-2")
        _ = try await other.append(AuditRecord(time: AuditTime(noon), event: .verify))
        func lastUse(days: Double) async throws -> Date? {
            try await searches.lastUse(of: old, since: noon - days * 86_400, now: noon, in: fixture.ledger)
        }
        func release(_ number: UInt8, at node: PostgreSQLLedger, daysAgo days: Double) async throws {
            let release = Release(
                transactionId: try #require(TransactionIdentifier(bytes: [UInt8](repeating: number, count: 32))),
                publicKeyHash: old, caller: "checkout", referenceDigest: nil,
                contentDigest: [UInt8](repeating: 9, count: 32), at: noon - days * 86_400)
            let verdict = try await node.release(release, recording: LedgerFixture.record(of: release)).verdict
            #expect(verdict == .released)
        }
        #expect(try await lastUse(days: 10) == nil)
        try await release(1, at: other, daysAgo: 6)
        #expect(try await lastUse(days: 10) == noon - 6 * 86_400)
        #expect(try await lastUse(days: 5) == nil)
        let third = try await fixture.node("node-3")
        try await release(2, at: third, daysAgo: 4)
        #expect(try await lastUse(days: 5) == noon - 4 * 86_400)
        for node in [other, third] { await node.close() }
    }
}
