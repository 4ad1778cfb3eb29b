import Foundation
import MerchantKeys
import Testing

@testable import Ledger

@Suite("Key records")
struct KeyRecordTests {
    @Test("Every field comes back as it was recorded, ordered by hash")
    func roundTrip() async throws {
        let fixture = try await LedgerFixture()
        var records = [LedgerFixture.record(fixture.key)]
        for (number, origin) in zip(2..., KeyRecord.Origin.allCases) {
            var record = LedgerFixture.record(
                LedgerFixture.hash(UInt8(number)), state: .deactivated, cutOff: LedgerFixture.noon + 86_400.5,
                merchant: "merchant.com.example.\(number)", algorithm: .rsa)
            record.origin = origin
            try await fixture.ledger.record(record)
            records.append(record)
        }
        records.sort { $0.publicKeyHash.bytes.lexicographicallyPrecedes($1.publicKeyHash.bytes) }
        #expect(try await fixture.ledger.keyRecords() == records)
        for record in records { #expect(try await fixture.ledger.keyRecord(record.publicKeyHash) == record) }
        #expect(try await fixture.ledger.keyRecord(LedgerFixture.hash(200)) == nil)
    }

    @Test("A key's merchant and algorithm never change")
    func immutable() async throws {
        let fixture = try await LedgerFixture()
        await #expect(throws: LedgerFailure.conflict(.anotherMerchant)) {
            try await fixture.ledger.record(LedgerFixture.record(fixture.key, merchant: "merchant.com.other"))
        }
        await #expect(throws: LedgerFailure.conflict(.anotherAlgorithm)) {
            try await fixture.ledger.record(LedgerFixture.record(fixture.key, algorithm: .rsa))
        }
        #expect(try await fixture.ledger.keyRecords() == [LedgerFixture.record(fixture.key)])
    }

    @Test("Origin and time of creation stay those of the first record")
    func firstRecordStays() async throws {
        let fixture = try await LedgerFixture()
        var later = LedgerFixture.record(fixture.key, state: .suspended)
        later.origin = .adopted
        later.createdAt = LedgerFixture.noon + 1000
        try await fixture.ledger.record(later)
        #expect(try await fixture.ledger.keyRecords() == [LedgerFixture.record(fixture.key, state: .suspended)])
    }

    @Test("Recording the same again changes nothing and succeeds")
    func idempotent() async throws {
        let fixture = try await LedgerFixture()
        try await fixture.ledger.record(LedgerFixture.record(fixture.key))
        #expect(try await fixture.ledger.keyRecords().count == 1)
    }

    @Test(
        "A compromised or destroyed key never comes back, not by another import either",
        arguments: [KeyState.compromised, .destroyed])
    func finalStates(state: KeyState) async throws {
        let fixture = try await LedgerFixture()
        let key = LedgerFixture.hash(5)
        try await fixture.ledger.record(LedgerFixture.record(key, state: state))
        await #expect(throws: LedgerFailure.conflict(.transition(from: state, to: .active))) {
            try await fixture.ledger.record(LedgerFixture.record(key, state: .active))
        }
    }

    @Test("A state moves only as SP 800-57 permits")
    func transitions() async throws {
        let fixture = try await LedgerFixture()
        var number: UInt8 = 10
        for from in KeyState.allCases {
            for to in KeyState.allCases where from != to {
                number += 1
                let key = LedgerFixture.hash(number)
                try await fixture.ledger.record(LedgerFixture.record(key, state: from))
                let change = LedgerFixture.record(key, state: to)
                if from.canBecome(to) {
                    try await fixture.ledger.record(change)
                } else {
                    await #expect(throws: LedgerFailure.conflict(.transition(from: from, to: to))) {
                        try await fixture.ledger.record(change)
                    }
                }
            }
        }
    }
}
