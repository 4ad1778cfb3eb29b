import AuditChain
import Foundation
import MerchantKeys
import PaymentToken
import Testing

@testable import Ledger

@Suite("Use of keys, and several keys' changes at once")
struct KeyUsageTests {
    private let noon = LedgerFixture.noon

    @Test("claims since a time are counted by key; repeats, refusals and older ones are not")
    func usage() async throws {
        let fixture = try await LedgerFixture()
        let other = LedgerFixture.hash(2)
        try await fixture.ledger.record(LedgerFixture.record(other))
        for (number, seconds) in [(1, -10.0), (2, 0), (3, 30), (4, 20)] {
            _ = try await fixture.ledger.release(
                fixture.request(number, at: noon.addingTimeInterval(seconds)), recording: nil)
        }
        // A repeat, a replay, and another key's claim.
        _ = try await fixture.ledger.release(fixture.request(3, at: noon.addingTimeInterval(40)), recording: nil)
        _ = try await fixture.ledger.release(
            fixture.request(3, caller: "other", at: noon.addingTimeInterval(41)), recording: nil)
        _ = try await fixture.ledger.release(
            fixture.request(5, key: other, at: noon.addingTimeInterval(50)), recording: nil)
        let usage = try await fixture.ledger.usage(since: noon)
        #expect(
            usage == [
                fixture.key: KeyUses(count: 3, last: noon.addingTimeInterval(30)),
                other: KeyUses(count: 1, last: noon.addingTimeInterval(50)),
            ])
        #expect(try await fixture.ledger.usage(since: noon.addingTimeInterval(51)).isEmpty)
        await fixture.ledger.close()
    }

    private func change(_ keys: [KeyRecord]) -> AdministrativeChange {
        var change = AdministrativeChange(at: noon, records: [])
        change.furtherKeys = keys.map { key in
            AdministrativeChange.KeyChange(
                key, precondition: .state(.active),
                record: AuditRecord(
                    time: AuditTime(noon),
                    event: .keyStateChange(KeyStateChange(from: nil, to: .deactivated, reason: AuditReason("rotated"))),
                    publicKeyHash: AuditDigest(bytes: key.publicKeyHash.bytes)))
        }
        return change
    }

    @Test("several keys change in one transaction, each with its record and the state before")
    func together() async throws {
        let fixture = try await LedgerFixture()
        let end = noon.addingTimeInterval(3600)
        let hashes = [fixture.key, LedgerFixture.hash(2)]
        try await fixture.ledger.record(LedgerFixture.record(hashes[1]))
        let sequences = try await fixture.ledger.apply(
            change(hashes.map { LedgerFixture.record($0, state: .deactivated, cutOff: end) }))
        #expect(sequences.count == 2)
        let keys = try await fixture.ledger.keyRecords()
        #expect(keys.count == 2 && keys.allSatisfy { $0.state == .deactivated && $0.cutOff == end })
        let lines = try await fixture.ledger.records(AuditFilter(), order: .oldestFirst, after: nil, limit: 10).records
            .map { String(decoding: $0.line, as: UTF8.self) }
        #expect(
            lines.count == 2 && lines.allSatisfy { $0.contains(#""from":"active","to":"deactivated""#) }, "\(lines)")
        for (line, hash) in zip(lines, hashes) { #expect(line.contains(hash.base64)) }
        await fixture.ledger.close()
    }

    @Test("when one of several was changed meanwhile, none changes and nothing is recorded")
    func allOrNothing() async throws {
        let fixture = try await LedgerFixture()
        let other = LedgerFixture.hash(2)
        try await fixture.ledger.record(LedgerFixture.record(other, state: .active))
        try await fixture.ledger.record(LedgerFixture.record(other, state: .suspended))
        let head = try await fixture.ledger.head()
        let wanted = change([fixture.key, other].map { LedgerFixture.record($0, state: .deactivated) })
        await #expect(throws: LedgerFailure.conflict(.changedMeanwhile)) {
            try await fixture.ledger.apply(wanted)
        }
        let states = try await fixture.ledger.keyRecords().map(\.state)
        #expect(Set(states) == [.active, .suspended])
        #expect(try await fixture.ledger.head() == head)
        await fixture.ledger.close()
    }
}
