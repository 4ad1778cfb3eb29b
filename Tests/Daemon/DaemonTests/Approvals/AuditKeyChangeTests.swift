import AccessControl
import AuditChain
import Foundation
import Ledger
import Refusals
import TestSupport
import Testing

@testable import Daemon
@testable import DaemonConfiguration
@testable import UsageRecording

@Suite("Change of the audit key")
struct AuditKeyChangeTests {
    private let directory: FreshDirectory
    private let hsmToken = SoftwareAuditToken()
    private let caller = RecordRoutesFixture.auditor

    init() throws {
        directory = try FreshDirectory()
    }

    private func fixture(sealing: SealingHSMToken? = nil) async throws -> RecordFixture {
        let fixture = try await RecordFixture(
            ledger: directory.path("ledger.sqlite"), hsmToken: sealing ?? hsmToken)
        await fixture.gate.compare()
        return fixture
    }

    private func keyChange(
        _ fixture: RecordFixture, people: Int = 1, sealing: SealingHSMToken? = nil
    ) -> AuditKeyChange {
        let clock = WallClock { RecordFixture.noon }
        return AuditKeyChange(
            ledger: fixture.ledger, sealing: sealing ?? SealingHSMToken(among: [hsmToken], keys: []),
            checkpoints: fixture.checkpoints,
            gate: fixture.gate, rule: TwoPersonRule(people: people, expire: .seconds(60)), recorder: fixture.recorder,
            clock: clock, logger: RecordFixture.quiet)
    }

    private func change(
        _ change: AuditKeyChange, to name: String? = nil, dryRun: Bool = false
    ) async -> Result<AuditKeyChange.Outcome, Refusal> {
        do throws(Refusal) {
            return .success(
                try await change.change(
                    to: name, reason: AuditReason("yearly"), by: caller, dryRun: dryRun, draft: AuditDraft()))
        } catch {
            return .failure(error)
        }
    }

    private func keyIds(_ fixture: RecordFixture) async throws -> [AuditDigest] {
        try await fixture.checkpoints.keys().map(\.keyId)
    }

    /// The identifiers of the keys that signed the audit checkpoints, in the order of the checkpoints.
    private func signers(_ fixture: RecordFixture) async throws -> [AuditDigest] {
        var lines: [UInt8] = []
        for try await page in fixture.ledger.export() { lines += page.bytes }
        return lines.split(separator: UInt8(ascii: "\n")).compactMap {
            SignedCheckpoint(line: Array($0))?.checkpoint.keyId
        }
    }

    @Test(
        "seals earlier records with the former key, later ones with the new key; both verify the chain"
    )
    func sealsWithNewKey() async throws {
        let fixture = try await fixture()
        try await fixture.append(3)
        let old = try #require(try await keyIds(fixture).first)
        await fixture.check.run()
        guard case .success(.changed(let from, let to)) = await change(keyChange(fixture)) else {
            Issue.record("it was refused")
            return
        }
        #expect(from.keyId == old && to.keyId != old && hsmToken.keyCount == 2)
        #expect(try await keyIds(fixture) == [old, to.keyId])
        #expect(try await fixture.checkpoints.remembered()?.checkpoint.keyId == to.keyId)
        try await fixture.append(2)
        try await fixture.checkpoints.seal()
        #expect(try await signers(fixture).suffix(3) == [old, to.keyId, to.keyId])
        guard case .intact = try await fixture.verdict() else {
            Issue.record("\(try await fixture.verdict())")
            return
        }
        await fixture.check.run()
        #expect(fixture.check.finding?.fault == nil, "the daemon's own check knows both keys")
        // The old key alone must not verify checkpoints that the new key signed.
        var verifier = ChainVerifier(keys: CheckpointKeys([from]), heads: [])
        for try await page in fixture.ledger.export() { verifier.consume(page.bytes[...]) }
        if case .intact = verifier.verdict() { Issue.record("the old key alone verifies the new key's checkpoints") }

        let lines = try await fixture.ledger.records(AuditFilter(), order: .newestFirst, after: nil, limit: 100).records
            .map { String(decoding: $0.line, as: UTF8.self) }
        let line = try #require(lines.first { $0.contains("audit_key_change") })
        #expect(line.contains("\"from\":\"\(old.hex)\",\"to\":\"\(to.keyId.hex)\",\"reason\":\"yearly\""))
        await fixture.ledger.close()

        // A later start continues with the new key, and finds that ledger and HSM token agree.
        let next = try await self.fixture()
        #expect(next.gate.position == .open)
        try await next.append()
        #expect(try await next.checkpoints.seal()?.checkpoint.keyId == to.keyId)
        await next.ledger.close()
    }

    @Test("has another HSM token seal, also after the next start, and lets the former one keep its key and head")
    func movedToAnotherHSMToken() async throws {
        let second = SoftwareAuditToken(name: "second")
        let sealing = SealingHSMToken(among: [hsmToken, second], keys: [])
        let fixture = try await fixture(sealing: sealing)
        let old = try #require(try await keyIds(fixture).first)
        let head = hsmToken.heads
        let keyChange = keyChange(fixture, sealing: sealing)
        guard case .failure(let refusal) = await change(keyChange, to: "third") else {
            Issue.record("an unknown HSM token was accepted")
            return
        }
        #expect(refusal.code == .malformedRequest && second.keyCount == 0)
        guard case .success(.changed(_, let to)) = await change(keyChange, to: "second") else {
            Issue.record("it was refused")
            return
        }
        #expect(sealing.name == "second" && hsmToken.keyCount == 1 && second.keyCount == 1)
        // The former HSM token sealed the announcement of the new key. The new HSM token sealed the change. Each
        // remembers the head that it sealed last.
        #expect(hsmToken.heads != head && hsmToken.heads.count == 1 && second.heads.count == 1)
        try await fixture.append(2)
        try await fixture.checkpoints.seal()
        #expect(try await signers(fixture).suffix(3) == [old, to.keyId, to.keyId])
        guard case .intact = try await fixture.verdict() else {
            Issue.record("\(try await fixture.verdict())")
            return
        }
        #expect(
            try await fixture.entries.filter { $0.event.hasPrefix("audit_key_") }.map(\.hsmToken)
                == ["primary", "second", "second"])
        let keys = try await fixture.ledger.auditKeys()
        #expect(keys.map(\.hsmToken) == ["primary", "second"])
        await fixture.ledger.close()

        let next = try await self.fixture(sealing: SealingHSMToken(among: [hsmToken, second], keys: keys))
        #expect(next.gate.position == .open && next.gate.hsmToken.name == "second")
        await next.ledger.close()
    }

    @Test("lets a second person approve another HSM token, and names it in the list of requests")
    func movedByTwo() async throws {
        let second = SoftwareAuditToken(name: "second")
        let sealing = SealingHSMToken(among: [hsmToken, second], keys: [])
        let fixture = try await fixture(sealing: sealing)
        let keyChange = keyChange(fixture, people: 2, sealing: sealing)
        var approvals: [Approval] = []
        for name in [nil, "primary", "second"] {
            guard case .success(.pending(let approval)) = await change(keyChange, to: name) else {
                Issue.record("it does not wait")
                return
            }
            approvals.append(approval)
        }
        let successors = try await keyChange.successors()
        #expect(approvals.map { successors[$0.parameters]?.hsmToken.name } == ["primary", "primary", "second"])
        #expect(second.keyCount == 0 && sealing.name == "primary")
        #expect(await carryOut(approvals[2], keyChange) == nil)
        #expect(second.keyCount == 1 && hsmToken.keyCount == 1 && sealing.name == "second")
        #expect(await carryOut(approvals[0], keyChange) == .approvalInvalid)
        await fixture.ledger.close()
    }

    @Test("uses a planned key only in the HSM token for which it was planned")
    func plannedElsewhere() async throws {
        let second = SoftwareAuditToken(name: "second")
        let sealing = SealingHSMToken(among: [hsmToken, second], keys: [])
        let fixture = try await fixture(sealing: sealing)
        second.fail(at: .sign)
        guard case .failure = await change(keyChange(fixture, sealing: sealing), to: "second") else {
            Issue.record("it was not refused")
            return
        }
        #expect(second.keyCount == 1 && sealing.name == "primary")
        guard case .success(.changed) = await change(keyChange(fixture, sealing: sealing)) else {
            Issue.record("it was refused")
            return
        }
        #expect(Set(hsmToken.identifiers).isDisjoint(with: second.identifiers) && hsmToken.keyCount == 2)
        second.fail(at: nil)
        guard case .success(.changed) = await change(keyChange(fixture, sealing: sealing), to: "second") else {
            Issue.record("it was refused")
            return
        }
        #expect(second.keyCount == 1 && sealing.name == "second")
        await fixture.ledger.close()
    }

    @Test("makes no key in a dry run")
    func dryRun() async throws {
        let fixture = try await fixture()
        guard case .success(.wouldChange) = await change(keyChange(fixture), dryRun: true) else {
            Issue.record("it was refused")
            return
        }
        #expect(hsmToken.keyCount == 1)
        #expect(try await keyIds(fixture).count == 1)
        await fixture.ledger.close()
    }

    @Test(
        "keeps the former key in service when the HSM token fails a step, and completes with the next change",
        arguments: [SoftwareAuditToken.Step.create, .sign])
    func failingHSMToken(step: SoftwareAuditToken.Step) async throws {
        let fixture = try await fixture()
        try await fixture.append()
        hsmToken.fail(at: step)
        guard case .failure(let refusal) = await change(keyChange(fixture)) else {
            Issue.record("it was not refused")
            return
        }
        #expect(refusal.code == .hsmUnavailable)
        #expect(try await keyIds(fixture).count == 1)
        hsmToken.fail(at: nil)
        try await fixture.append()
        #expect(try await fixture.checkpoints.seal()?.checkpoint.keyId == keyIds(fixture).first)
        guard case .success(.changed) = await change(keyChange(fixture)) else {
            Issue.record("it was refused")
            return
        }
        #expect(try await keyIds(fixture).count == 2)
        #expect(hsmToken.keyCount == 2)
        await fixture.ledger.close()
    }

    @Test("lets staff only request the change, and binds an approval to the key in service at the request")
    func requestedByStaff() async throws {
        let fixture = try await fixture()
        let keyChange = keyChange(fixture, people: 2)
        var approvals: [Approval] = []
        for _ in 0..<2 {
            guard case .success(.pending(let approval)) = await change(keyChange) else {
                Issue.record("it does not wait")
                return
            }
            approvals.append(approval)
        }
        #expect(hsmToken.keyCount == 1)
        #expect(await carryOut(approvals[0], keyChange) == nil)
        #expect(try await fixture.ledger.approval(approvals[0].identifier)?.status == .done)
        #expect(await carryOut(approvals[1], keyChange) == .approvalInvalid)
        #expect(hsmToken.keyCount == 2)
        #expect(try await keyIds(fixture).count == 2)
        await fixture.ledger.close()
    }

    @Test("changes no key with an approval by the requester")
    func samePerson() async throws {
        let fixture = try await fixture()
        let keyChange = keyChange(fixture, people: 2)
        guard case .success(.pending(let approval)) = await change(keyChange) else {
            Issue.record("it does not wait")
            return
        }
        #expect(await carryOut(approval, keyChange, by: caller.uid) == .approvalInvalid)
        #expect(try await keyIds(fixture).count == 1)
        #expect(try await fixture.ledger.approval(approval.identifier)?.status == .pending)
        await fixture.ledger.close()
    }

    private func carryOut(
        _ approval: Approval, _ keyChange: AuditKeyChange, by uid: UInt32 = 4242
    ) async -> RefusalCode? {
        do throws(Refusal) {
            try await keyChange.carryOut(
                approval,
                AdministrativeChange(
                    at: RecordFixture.noon,
                    approval: .approve(approval.identifier, by: PersonIdentities(uid: uid), executes: true), records: []
                ),
                by: caller, draft: AuditDraft())
            return nil
        } catch {
            return error.code
        }
    }
}
