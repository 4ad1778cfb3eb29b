import AuditChain
import Crypto
import Foundation
import TestSupport
import Testing

@testable import Ledger

@Suite("The keys that sign checkpoints", .everyEngine)
struct AuditKeyTests {
    private let first = [UInt8](repeating: 1, count: 16)
    private let second = [UInt8](repeating: 2, count: 16)
    private let point = Array(P256.Signing.PrivateKey().publicKey.x963Representation)

    @Test("A key is planned before it exists, is confirmed with its public key, and outlives a restart")
    func planned() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.auditKeys().isEmpty)
        try await fixture.ledger.planAuditKey(identifier: first)
        try await fixture.ledger.planAuditKey(identifier: first)
        #expect(try await fixture.ledger.auditKeys() == [StoredAuditKey(identifier: first, publicKey: nil)])
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        #expect(try await again.auditKeys() == [StoredAuditKey(identifier: first, publicKey: nil)])
        try await again.confirmAuditKey(identifier: first, publicKey: point, recording: nil)
        try await again.planAuditKey(identifier: second)
        try await again.planAuditKey(identifier: first)
        let both = [
            StoredAuditKey(identifier: first, publicKey: point), StoredAuditKey(identifier: second, publicKey: nil),
        ]
        #expect(try await again.auditKeys() == both)
        await again.close()
    }

    @Test("A confirmation and its record stand together, and confirming again writes nothing")
    func confirmed() async throws {
        let fixture = try await LedgerFixture()
        let record = AuditRecord(
            time: AuditTime(LedgerFixture.noon),
            event: .auditKeyChange(from: nil, to: .of(point), reason: nil, approval: nil))
        try await fixture.ledger.planAuditKey(identifier: first)
        let sequence = try await fixture.ledger.confirmAuditKey(
            identifier: first, publicKey: point, recording: record)
        #expect(sequence == 1)
        let again = try await fixture.ledger.confirmAuditKey(identifier: first, publicKey: point, recording: record)
        #expect(again == nil)
        #expect(try await fixture.ledger.everyEntry().map(\.event) == ["audit_key_change"])
    }

    @Test("A key that was not planned, another public key, and what is no key at all are refused and not recorded")
    func conflicts() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        let record = AuditRecord(time: AuditTime(LedgerFixture.noon), event: .auditPublicKey())
        try await ledger.planAuditKey(identifier: first)
        var offCurve = point
        offCurve[64] ^= 1
        for (identifier, publicKey) in [(second, point), (first, offCurve), (first, []), (first, [4] + point)] {
            await #expect(throws: LedgerFailure.auditKeyConflict) {
                try await ledger.confirmAuditKey(identifier: identifier, publicKey: publicKey, recording: record)
            }
        }
        try await ledger.confirmAuditKey(identifier: first, publicKey: point, recording: nil)
        let other = Array(P256.Signing.PrivateKey().publicKey.x963Representation)
        await #expect(throws: LedgerFailure.auditKeyConflict) {
            try await ledger.confirmAuditKey(identifier: first, publicKey: other, recording: record)
        }
        for size in [0, 15, 17] {
            await #expect(throws: LedgerFailure.auditKeyConflict) {
                try await ledger.planAuditKey(identifier: [UInt8](repeating: 3, count: size))
            }
        }
        #expect(try await ledger.auditKeys() == [StoredAuditKey(identifier: first, publicKey: point)])
        #expect(try await ledger.head().sequence == 0)
    }

    @Test("When the acknowledgement gets lost a plan and a confirmation are found, the record with it")
    func acknowledgementLost() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        fixture.loseAcknowledgement()
        try await fixture.ledger.planAuditKey(identifier: first)
        fixture.loseAcknowledgement()
        let sequence = try await fixture.ledger.confirmAuditKey(
            identifier: first, publicKey: point,
            recording: AuditRecord(time: AuditTime(LedgerFixture.noon), event: .auditPublicKey()))
        #expect(sequence == 1)
        #expect(fixture.lostAcknowledgements == 2)
    }

    @Test("When nothing can be committed neither stands")
    func unavailable() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        try await fixture.breakCommits()
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.planAuditKey(identifier: first) }
        try await fixture.repairCommits()
        #expect(try await fixture.ledger.auditKeys().isEmpty)
        try await fixture.ledger.planAuditKey(identifier: first)
        try await fixture.breakCommits()
        await #expect(throws: LedgerFailure.self) {
            try await fixture.ledger.confirmAuditKey(identifier: first, publicKey: point, recording: nil)
        }
        try await fixture.repairCommits()
        #expect(try await fixture.ledger.auditKeys() == [StoredAuditKey(identifier: first, publicKey: nil)])
    }
}
