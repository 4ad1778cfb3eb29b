import AuditChain
import Foundation
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger

@Suite("Key records", .everyEngine)
struct KeyRecordTests {
    @Test("reads back every field as it was recorded, ordered by hash")
    func roundTrip() async throws {
        let fixture = try await LedgerFixture()
        var records = [LedgerFixture.record(fixture.key)]
        for (number, origin) in zip(2..., KeyRecord.Origin.allCases) {
            var record = LedgerFixture.record(
                LedgerFixture.hash(UInt8(number)), state: .deactivated, cutOff: LedgerFixture.noon + 86_400.5,
                merchant: "merchant.com.example.\(number)", algorithm: .rsa)
            record.origin = origin
            try await fixture.ledger.store(record)
            records.append(record)
        }
        records.sort { $0.publicKeyHash.bytes.lexicographicallyPrecedes($1.publicKeyHash.bytes) }
        #expect(try await fixture.ledger.keyRecords() == records)
        for record in records { #expect(try await fixture.ledger.keyRecord(record.publicKeyHash) == record) }
        #expect(try await fixture.ledger.keyRecord(LedgerFixture.hash(200)) == nil)
    }

    @Test("never changes a key's merchant and algorithm")
    func immutable() async throws {
        let fixture = try await LedgerFixture()
        await #expect(throws: LedgerFailure.conflict(.anotherMerchant)) {
            try await fixture.ledger.store(LedgerFixture.record(fixture.key, merchant: "merchant.com.other"))
        }
        await #expect(throws: LedgerFailure.conflict(.anotherAlgorithm)) {
            try await fixture.ledger.store(LedgerFixture.record(fixture.key, algorithm: .rsa))
        }
        #expect(try await fixture.ledger.keyRecords() == [LedgerFixture.record(fixture.key)])
    }

    @Test("keeps origin and time of creation from the first record")
    func firstRecordStays() async throws {
        let fixture = try await LedgerFixture()
        var later = LedgerFixture.record(fixture.key, state: .suspended)
        later.origin = .adopted
        later.createdAt = LedgerFixture.noon + 1000
        try await fixture.ledger.store(later)
        #expect(try await fixture.ledger.keyRecords() == [LedgerFixture.record(fixture.key, state: .suspended)])
    }

    @Test("succeeds without a change when the same is recorded again")
    func idempotent() async throws {
        let fixture = try await LedgerFixture()
        try await fixture.ledger.store(LedgerFixture.record(fixture.key))
        #expect(try await fixture.ledger.keyRecords().count == 1)
    }

    @Test(
        "never restores a compromised or destroyed key, not by another import either",
        arguments: [KeyState.compromised, .destroyed])
    func finalStates(state: KeyState) async throws {
        let fixture = try await LedgerFixture()
        let key = LedgerFixture.hash(5)
        try await fixture.ledger.store(LedgerFixture.record(key, state: state))
        await #expect(throws: LedgerFailure.conflict(.transition(from: state, to: .active))) {
            try await fixture.ledger.store(LedgerFixture.record(key, state: .active))
        }
    }

    @Test("changes states only as SP 800-57 permits")
    func transitions() async throws {
        let fixture = try await LedgerFixture()
        var number: UInt8 = 10
        for from in KeyState.allCases {
            for to in KeyState.allCases where from != to {
                number += 1
                let key = LedgerFixture.hash(number)
                try await fixture.ledger.store(LedgerFixture.record(key, state: from))
                let change = LedgerFixture.record(key, state: to)
                if from.canBecome(to) {
                    try await fixture.ledger.store(change)
                } else {
                    await #expect(throws: LedgerFailure.conflict(.transition(from: from, to: to))) {
                        try await fixture.ledger.store(change)
                    }
                }
            }
        }
    }
}

@Suite("Uses of keys, and simultaneous changes of several keys", .everyEngine)
struct KeyUsageTests {
    private let noon = LedgerFixture.noon

    @Test("counts claims since a time by key, without repeats, refusals and older ones")
    func usage() async throws {
        let fixture = try await LedgerFixture()
        let other = LedgerFixture.hash(2)
        try await fixture.ledger.store(LedgerFixture.record(other))
        for (number, seconds) in [(1, -10.0), (2, 0), (3, 30), (4, 20)] {
            _ = try await fixture.ledger.release(
                fixture.request(number, at: noon.addingTimeInterval(seconds)), recording: nil)
        }
        // These three are a repeat, a replay, and a release with another key.
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

    @Test("changes several keys in one transaction, each with its record and earlier state")
    func together() async throws {
        let fixture = try await LedgerFixture()
        let end = noon.addingTimeInterval(3600)
        let hashes = [fixture.key, LedgerFixture.hash(2)]
        try await fixture.ledger.store(LedgerFixture.record(hashes[1]))
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

    @Test("changes and records nothing if one of several keys was changed meanwhile")
    func allOrNothing() async throws {
        let fixture = try await LedgerFixture()
        let other = LedgerFixture.hash(2)
        try await fixture.ledger.store(LedgerFixture.record(other, state: .active))
        try await fixture.ledger.store(LedgerFixture.record(other, state: .suspended))
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
