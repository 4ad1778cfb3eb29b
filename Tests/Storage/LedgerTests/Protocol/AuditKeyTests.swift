import AuditChain
import Crypto
import CryptoExtras
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
        try await fixture.ledger.planAuditKey(identifier: first, in: "primary")
        try await fixture.ledger.planAuditKey(identifier: first, in: "primary")
        #expect(
            try await fixture.ledger.auditKeys() == [
                StoredAuditKey(identifier: first, publicKey: nil, hsmToken: "primary")
            ])
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        #expect(try await again.auditKeys() == [StoredAuditKey(identifier: first, publicKey: nil, hsmToken: "primary")])
        try await again.confirmAuditKey(identifier: first, publicKey: point, recording: nil)
        try await again.planAuditKey(identifier: second, in: "primary")
        try await again.planAuditKey(identifier: first, in: "primary")
        let both = [
            StoredAuditKey(identifier: first, publicKey: point, hsmToken: "primary"),
            StoredAuditKey(identifier: second, publicKey: nil, hsmToken: "primary"),
        ]
        #expect(try await again.auditKeys() == both)
        await again.close()
    }

    @Test("stores an RSA key, and the HSM token in which a key was found")
    func hsmTokens() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        let key = Array(try _RSA.Signing.PrivateKey(keySize: .bits2048).publicKey.derRepresentation)
        try await ledger.planAuditKey(identifier: first, in: nil)
        try await ledger.confirmAuditKey(identifier: first, publicKey: key, recording: nil)
        #expect(try await ledger.auditKeys() == [StoredAuditKey(identifier: first, publicKey: key)])
        try await ledger.update(auditKey: first, foundIn: "second")
        #expect(
            try await ledger.auditKeys() == [
                StoredAuditKey(identifier: first, publicKey: key, hsmToken: "second")
            ])
        let large = Array(try _RSA.Signing.PrivateKey(keySize: .bits3072).publicKey.derRepresentation)
        try await ledger.planAuditKey(identifier: second, in: "primary")
        await #expect(throws: LedgerFailure.auditKeyConflict) {
            try await ledger.confirmAuditKey(identifier: second, publicKey: large, recording: nil)
        }
    }

    @Test("stores a confirmation with its record, and writes nothing when it is repeated")
    func confirmed() async throws {
        let fixture = try await LedgerFixture()
        let record = AuditRecord(
            time: AuditTime(LedgerFixture.noon),
            event: .auditKeyChange(from: nil, to: .of(point), reason: nil, approval: nil))
        try await fixture.ledger.planAuditKey(identifier: first, in: "primary")
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
        try await ledger.planAuditKey(identifier: first, in: "primary")
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
                try await ledger.planAuditKey(identifier: [UInt8](repeating: 3, count: size), in: "primary")
            }
        }
        #expect(
            try await ledger.auditKeys() == [StoredAuditKey(identifier: first, publicKey: point, hsmToken: "primary")])
        #expect(try await ledger.head().sequence == 0)
    }

    @Test("finds a plan and a confirmation with its record when the acknowledgement is lost")
    func acknowledgementLost() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        fixture.loseAcknowledgement()
        try await fixture.ledger.planAuditKey(identifier: first, in: "primary")
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
        await #expect(throws: LedgerFailure.self) {
            try await fixture.ledger.planAuditKey(identifier: first, in: "primary")
        }
        try await fixture.repairCommits()
        #expect(try await fixture.ledger.auditKeys().isEmpty)
        try await fixture.ledger.planAuditKey(identifier: first, in: "primary")
        try await fixture.breakCommits()
        await #expect(throws: LedgerFailure.self) {
            try await fixture.ledger.confirmAuditKey(identifier: first, publicKey: point, recording: nil)
        }
        try await fixture.repairCommits()
        #expect(
            try await fixture.ledger.auditKeys() == [
                StoredAuditKey(identifier: first, publicKey: nil, hsmToken: "primary")
            ])
    }
}
