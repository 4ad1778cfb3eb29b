import AuditChain
import Foundation
import Ledger
import Refusals
import TestSupport
import Testing
import WorkerProtocol

@testable import UsageRecording

extension LedgerGateTests {
    @Test(
        "completes at the next start a start that failed while it made the audit key",
        arguments: [SoftwareAuditToken.Step.create, .sign, .remember])
    func completesFailedStart(step: SoftwareAuditToken.Step) async throws {
        let first = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        hsmToken.fail(at: step)
        await first.gate.compare()
        #expect(first.gate.position == .waiting)
        await first.ledger.close()
        hsmToken.fail(at: nil)
        let next = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        await next.gate.compare()
        #expect(next.gate.position == .open && hsmToken.keyCount == 1)
    }

    @Test("recognises a key as the ledger's own if it was made but not recorded")
    func madeAndNotRecorded() async throws {
        let first = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        let identifier = Release.randomIdentifier()
        try await first.ledger.planAuditKey(identifier: identifier, in: "primary")
        _ = try await hsmToken.createAuditKey(identifier: identifier)
        await first.gate.compare()
        #expect(first.gate.position == .open && hsmToken.keyCount == 1)
    }

    @Test("adopts a planned key only if the HSM token contains nothing else: other keys belong to another ledger")
    func plannedAmongOthers() async throws {
        try await served()
        try FileManager.default.removeItem(atPath: path)
        let new = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        let planned = Release.randomIdentifier()
        try await new.ledger.planAuditKey(identifier: planned, in: "primary")
        // A holder of the PIN who reads the planned identifier in the ledger can create such a key.
        hsmToken.plant(planned)
        await new.gate.compare()
        guard case .lost = new.gate.position.disagreement else {
            Issue.record("\(new.gate.position)")
            return
        }
        #expect(try await new.checkpoints.keys().isEmpty)
    }

    @Test("rejects a planned key whose signature does not match its public key")
    func plannedWithoutProof() async throws {
        let new = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        let planned = Release.randomIdentifier()
        try await new.ledger.planAuditKey(identifier: planned, in: "primary")
        hsmToken.plant(planned)
        hsmToken.replacePublicKey(of: planned)
        await new.gate.compare()
        #expect(new.gate.position != .open)
        #expect(try await new.checkpoints.keys().isEmpty)
    }

    @Test("uses the ledger's own key only if it signs: an object with its public key proves nothing")
    func servedWithoutProof() async throws {
        try await served()
        let identifier = try #require(hsmToken.identifiers.first)
        hsmToken.replacePrivateKey(of: identifier)
        let next = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        await next.gate.compare()
        guard case .anotherHSMToken = next.gate.position.disagreement else {
            Issue.record("\(next.gate.position)")
            return
        }
    }

    @Test("takes over only the key of a lost ledger that was shown, and no key with the same identifier")
    func lostKeyReplaced() async throws {
        hsmToken.forget()
        try await served()
        try FileManager.default.removeItem(atPath: path)
        let new = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        await new.gate.compare()
        let identifier = try #require(hsmToken.identifiers.first)
        hsmToken.removeKeys()
        hsmToken.plant(identifier)
        let refusal = await #expect(throws: Refusal.self) {
            try await new.gate.acceptRestore(reason: AuditReason("disk failed"), by: RecordFixture.root)
        }
        #expect(refusal?.code == .invalidState)
        #expect(new.gate.position != .open)
        #expect(try await new.checkpoints.keys().isEmpty)
    }

    @Test("ignores a remembered head without the audit key's signature")
    func forgedHead() async throws {
        try await served()
        let genuine = try #require(hsmToken.heads.first)
        let text = String(decoding: genuine, as: UTF8.self)
        let forged = Array(text.replacing("\"sequence\":4", with: "\"sequence\":9").utf8)
        #expect(forged != genuine)
        hsmToken.replaceHeads([("node-1", genuine), ("node-1", forged), ("node-1", [0x7b])])
        let next = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        await next.gate.compare()
        #expect(next.gate.position == .open)
    }
}
