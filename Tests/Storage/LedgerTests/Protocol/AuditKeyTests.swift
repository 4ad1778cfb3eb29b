import AuditChain
import Crypto
import Foundation
import TestSupport
import Testing

@testable import Ledger

@Suite("The keys that sign audit checkpoints", .everyEngine)
struct AuditKeyTests {
    private let first = [UInt8](repeating: 1, count: 16)
    private let second = [UInt8](repeating: 2, count: 16)
    private let point = Array(P256.Signing.PrivateKey().publicKey.x963Representation)

    @Test("plans a key before it exists, confirms it with its public key, and keeps both over a restart")
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

    @Test("stores a confirmation with its record, and writes nothing when it is repeated")
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

    @Test("refuses, without a record, an unplanned key, another public key, and bytes that are no key")
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

    @Test("finds a plan and a confirmation with its record when the acknowledgement is lost")
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

    @Test("stores neither when nothing can be committed")
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
