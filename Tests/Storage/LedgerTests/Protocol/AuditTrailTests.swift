import AuditChain
import Foundation
import MerchantKeys
import TestSupport
import Testing

@testable import Ledger

@Suite("The audit trail", .everyEngine)
struct AuditTrailTests {
    private let signer = CheckpointSigner()

    @Test("records a release with all its details under the sequence that the verdict names")
    func releaseRecord() async throws {
        let fixture = try await LedgerFixture()
        let request = try fixture.request(1)
        let recorded = try await fixture.ledger.release(request, recording: LedgerFixture.record(of: request))
        #expect(recorded == RecordedVerdict(.released, sequence: 1))
        let page = try await fixture.ledger.records(AuditFilter(), order: .oldestFirst, after: nil, limit: 10)
        #expect(page.next == nil)
        let line = String(decoding: try #require(page.records.first).line, as: UTF8.self)
        let transaction = "000001" + String(repeating: "00", count: 29)
        let parts = [
            #"{"node":"node-1","sequence":1,"time":"2027-01-15T08:00:00.000Z","event":"decrypt","outcome":"ok","#,
            #""caller":{"name":"checkout","uid":1001,"gid":1002},"merchant":"merchant.com.example","#,
            #""publicKeyHash":"\#(fixture.key.base64)","transactionId":"\#(transaction)","protection":"C","#,
            #""token":"primary","reference":"\#(String(repeating: "07", count: 32))","hash":""#,
        ]
        #expect(line.hasPrefix(parts.joined()), "\(line)")
    }

    @Test("numbers records without a gap in a chain that verifies, with any mix of simultaneous writers")
    func mixedWriters() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...60 {
                let release = try fixture.releasing(number % 20)
                let key = LedgerFixture.record(LedgerFixture.hash(UInt8(number + 1)))
                group.addTask { _ = try await release(ledger) }
                group.addTask {
                    _ = try await ledger.append(AuditRecord(time: AuditTime(LedgerFixture.noon), event: .verify))
                }
                group.addTask {
                    _ = try await ledger.store(
                        key, recording: AuditRecord(time: AuditTime(LedgerFixture.noon), event: .keyGenerate()))
                }
                ledger.note(AuditRecord(time: AuditTime(LedgerFixture.noon), event: .stop))
            }
            try await group.waitForAll()
        }
        try await ledger.probe()
        try await signer.seal(ledger)
        #expect(try await signer.verdict(of: ledger).intactRecords == 240)
    }

    @Test(
        "finds each caller's first release in a range of sequences, ignoring refusals, repeats and other events"
    )
    func firstReleases() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        let records: [(uid: UInt32, event: AuditEvent, outcome: AuditOutcome)] = [
            (1, .decrypt(reference: nil), .refused(.currencyMismatch)), (1, .decrypt(reference: nil), .repeated),
            (1, .verify, .ok), (2, .decrypt(reference: nil), .ok), (1, .decrypt(reference: nil), .ok),
            (1, .decrypt(reference: nil), .ok),
        ]
        func time(_ sequence: Int) -> AuditTime {
            AuditTime(LedgerFixture.noon.addingTimeInterval(Double(sequence)))
        }
        for (sequence, record) in zip(1..., records) {
            let caller = AuditCaller(name: AuditText("shop"), uid: record.uid, gid: 9)
            _ = try await ledger.append(
                AuditRecord(time: time(sequence), event: record.event, outcome: record.outcome, caller: caller))
        }
        #expect(try await ledger.firstReleases(in: 1...1_000) == [1: time(5), 2: time(4)])
        #expect(try await ledger.firstReleases(in: 6...6) == [1: time(6)])
        #expect(try await ledger.firstReleases(in: 1...4) == [2: time(4)])
        #expect(try await ledger.firstReleases(in: 1...3).isEmpty)
    }

    @Test("continues the chain after a restart")
    func restart() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.releasing(1)(fixture.ledger).sequence == 1)
        let head = try await fixture.ledger.head()
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        #expect(try await again.head() == head)
        #expect(try await fixture.releasing(2)(again).sequence == 2)
        try await signer.seal(again)
        #expect(try await signer.verdict(of: again).intactRecords == 2)
        await again.close()
    }

    @Test("stores a key's change with its record, which has the ledger's actual earlier state")
    func keyChange() async throws {
        let fixture = try await LedgerFixture()
        let record = AuditRecord(
            time: AuditTime(LedgerFixture.noon),
            event: .keyStateChange(KeyStateChange(from: .deactivated, to: .suspended, reason: AuditReason("holiday"))))
        let suspended = LedgerFixture.record(fixture.key, state: .suspended)
        #expect(try await fixture.ledger.store(suspended, recording: record) == 1)
        let details = try await fixture.ledger.everyEntry()[0].details
        #expect(details["from"]?.stringValue == "active")
        #expect(details["to"]?.stringValue == "suspended")
    }

    @Test("records no change for a key's change that is not permitted")
    func keyConflict() async throws {
        let fixture = try await LedgerFixture()
        await #expect(throws: LedgerFailure.conflict(.anotherAlgorithm)) {
            try await fixture.ledger.store(
                LedgerFixture.record(fixture.key, algorithm: .rsa),
                recording: AuditRecord(time: AuditTime(LedgerFixture.noon), event: .keyGenerate()))
        }
        #expect(try await fixture.ledger.head().sequence == 0)
    }

    @Test("removes no record when claims are pruned")
    func pruning() async throws {
        let fixture = try await LedgerFixture()
        for number in 1...5 { _ = try await fixture.releasing(number)(fixture.ledger) }
        let retention = try #require(
            ClaimRetention(retainClaims: .seconds(60), repeatFor: .seconds(1), windows: [.seconds(1)]))
        let now = LedgerFixture.noon + 100
        #expect(try await fixture.ledger.release(fixture.request(6, at: now)) == .released)
        #expect(try await fixture.ledger.prune(retention, now: now) == .pruned(count: 5, before: now - 60))
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 5)
    }

    @Test("finds the records of each filter condition, and no others, in both orders")
    func filters() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        let noon = LedgerFixture.noon
        // The fourth record is earlier than the third, as if the clock had been set back.
        for (number, time) in [0.0, 10, 20, 5, 30].enumerated() {
            let request = try fixture.request(number, caller: number % 2 == 0 ? "checkout" : "1003")
            var record = LedgerFixture.record(of: request, at: AuditTime(noon + time))
            if number == 4 { record.merchant = AuditText("merchant.com.other") }
            if number == 3 { record.outcome = .refused(.decryptionFailed) }
            if number == 1 { record.publicKeyHash = AuditDigest(bytes: LedgerFixture.hash(9).bytes) }
            if number == 2 { record.caller?.uid = 1003 }
            _ = try await ledger.append(record)
        }
        func sequences(_ conditions: [String: String]) async throws -> [Int] {
            let filter = try AuditFilter(conditions)
            let found = try await ledger.everyEntry(filter).map(\.sequence)
            #expect(try await ledger.everyEntry(filter, order: .newestFirst).map(\.sequence) == found.reversed())
            // The engine's query and the filter's own `matches` must select the same records.
            #expect(try await ledger.everyEntry().filter(filter.matches).map(\.sequence) == found)
            return found
        }
        #expect(try await sequences([:]) == [1, 2, 3, 4, 5])
        #expect(try await sequences(["since": AuditTime(noon + 10).text]) == [2, 3, 5])
        #expect(try await sequences(["until": AuditTime(noon + 10).text]) == [1, 4])
        #expect(
            try await sequences(["since": AuditTime(noon + 5).text, "until": AuditTime(noon + 20).text]) == [2, 4])
        #expect(try await sequences(["since": AuditTime(noon + 99).text]).isEmpty)
        #expect(try await sequences(["outcome": "ok"]) == [1, 2, 3, 5])
        #expect(try await sequences(["outcome": "decryption_failed"]) == [4])
        #expect(try await sequences(["caller": "checkout"]) == [1, 3, 5])
        #expect(try await sequences(["caller": "1003"]) == [2, 3, 4])
        #expect(try await sequences(["merchant": "merchant.com.other"]) == [5])
        #expect(try await sequences(["key": LedgerFixture.hash(9).hex]) == [2])
        #expect(try await sequences(["key": String(fixture.key.hex.prefix(8))]) == [1, 3, 4, 5])
        #expect(try await sequences(["key": String(fixture.key.hex.prefix(9)).uppercased()]) == [1, 3, 4, 5])
        #expect(try await sequences(["key": "0000000000"]).isEmpty)
        #expect(try await sequences(["transaction": "000002" + String(repeating: "0", count: 58)]) == [3])
        #expect(
            try await sequences(["caller": "checkout", "merchant": "merchant.com.example", "outcome": "ok"]) == [1, 3])
        #expect(
            try await ledger.extent(since: AuditTime(noon + 10), until: nil) == 2...5)
        #expect(try await ledger.extent(since: nil, until: AuditTime(noon + 6)) == 1...4)
        #expect(try await ledger.extent(since: AuditTime(noon + 99), until: nil) == nil)
    }

    @Test("finds the records of both keys that share a prefix")
    func sharedPrefix() async throws {
        let fixture = try await LedgerFixture()
        for last in [0x01, 0x02, 0x01, 0xff] as [UInt8] {
            var bytes = [UInt8](repeating: 0xab, count: 32)
            bytes[4] = last == 0xff ? 0xff : 0x10 | last
            var record = AuditRecord(time: AuditTime(LedgerFixture.noon), event: .csrCreate)
            record.publicKeyHash = AuditDigest(bytes: bytes)
            _ = try await fixture.ledger.append(record)
        }
        let found = try await fixture.ledger.everyEntry(AuditFilter(["key": "abababab1"]))
        #expect(found.map(\.sequence) == [1, 2, 3])
    }
}
