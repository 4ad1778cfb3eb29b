import AuditChain
import DatabaseKit
import Foundation
import PaymentToken
import TestSupport
import Testing

@testable import Ledger
@testable import SQLiteLedger

/// The proofs of a key, as its node's record has them.
@Suite("Recorded proofs of keys", .everyEngine)
struct KeyProofsTests {
    private static let key = LedgerFixture.hash(1)
    private static let certificate = AuditDigest.of("a certificate".utf8)

    static func record(
        _ key: PublicKeyHash, in hsmToken: String?, _ outcome: AuditOutcome = .ok, certificate: AuditDigest? = nil,
        at time: Date = LedgerFixture.noon
    ) -> AuditRecord {
        AuditRecord(
            time: AuditTime(time), event: .keyProof(certificate: certificate), outcome: outcome,
            publicKeyHash: AuditDigest(bytes: key.bytes), hsmToken: hsmToken.map { AuditText($0) })
    }

    @Test("returns a key's proofs, the newest first, with their HSM tokens, certificates and results")
    func proofs() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        let (noon, node) = (LedgerFixture.noon, try #require(AuditNode(ledger.node)))
        for record in [
            Self.record(Self.key, in: "primary"),
            Self.record(Self.key, in: "second", .refused(.hsmUnavailable), at: noon + 1),
            Self.record(LedgerFixture.hash(2), in: "primary", at: noon + 2),
            Self.record(Self.key, in: "second", certificate: Self.certificate, at: noon + 3),
        ] { _ = try await ledger.append(record) }
        func proof(_ hsmToken: String, _ certificate: AuditDigest?, after: Double, _ succeeded: Bool) -> KeyProof {
            KeyProof(
                node: node, hsmToken: hsmToken, certificate: certificate, at: noon + after, succeeded: succeeded)
        }
        #expect(
            try await ledger.proofs(of: Self.key, since: noon) == [
                proof("second", Self.certificate, after: 3, true), proof("second", nil, after: 1, false),
                proof("primary", nil, after: 0, true),
            ])
        #expect(try await fixture.ledger.proofs(of: LedgerFixture.hash(3), since: noon).isEmpty)
    }

    @Test("leaves out earlier proofs, requests that reached no HSM token, and other events")
    func others() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        let noon = LedgerFixture.noon
        let other = AuditRecord(
            time: AuditTime(noon), event: .csrCreate, publicKeyHash: AuditDigest(bytes: Self.key.bytes),
            hsmToken: AuditText("primary"))
        for record in [
            Self.record(Self.key, in: "primary", at: noon - 1), Self.record(Self.key, in: nil, .refused(.invalidState)),
            other,
        ] { _ = try await ledger.append(record) }
        #expect(try await ledger.proofs(of: Self.key, since: noon).isEmpty)
        #expect(try await fixture.ledger.proofs(of: Self.key, since: noon - 1).map(\.hsmToken) == ["primary"])
    }

    @Test("finds the proofs by their index, so that the call reads no other record")
    func index() async throws {
        let fixture = try await LedgerFixture()
        // PostgreSQL's plan depends on the size of the tables, which are empty here.
        guard let ledger = fixture.ledger as? SQLiteLedger else { return }
        let plan = try await ledger.search { queries in
            try queries.run(
                "EXPLAIN QUERY PLAN " + ProofStatements.newest, [.bytes(Self.key.bytes), .time(LedgerFixture.noon)]
            ).map { try $0.text(3) }
        }
        withExtendedLifetime(fixture) {}
        #expect(plan.count == 1 && plan.first?.contains("USING INDEX audit_record_by_proof") == true, "\(plan)")
    }
}
