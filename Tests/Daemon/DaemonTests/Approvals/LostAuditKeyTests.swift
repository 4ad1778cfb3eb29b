import AccessControl
import AuditChain
import Foundation
import Ledger
import Refusals
import TestSupport
import Testing
import WorkerProtocol

@testable import Daemon
@testable import DaemonConfiguration
@testable import UsageRecording

@Suite("Change of a lost audit key")
struct LostAuditKeyTests {
    private let directory: FreshDirectory
    private let first = SoftwareAuditToken(name: "first")
    private let second = SoftwareAuditToken(name: "second")
    private let caller = RecordRoutesFixture.auditor

    init() throws {
        directory = try FreshDirectory()
    }

    /// A started daemon's record, and its change of the audit key.
    private struct Started {
        let record: RecordFixture
        let keyChange: AuditKeyChange
        let sealing: SealingHSMToken

        func expectUnchanged(_ others: SoftwareAuditToken...) async throws {
            #expect(others.allSatisfy { $0.keyCount == 0 })
            #expect(try await record.entries.count { $0.event == "audit_key_change" } == 1)
        }
    }

    /// - Parameter keys: the ledger's audit keys before the start.
    private func start(
        keys: [StoredAuditKey] = [], people: Int = 1, widestWindow: Duration? = .seconds(300)
    ) async throws -> Started {
        let sealing = SealingHSMToken(among: [first, second], keys: keys)
        let record = try await RecordFixture(
            ledger: directory.path("ledger.sqlite"), hsmToken: sealing, widestWindow: widestWindow)
        await record.gate.compare()
        let keyChange = AuditKeyChange(
            ledger: record.ledger, sealing: sealing, checkpoints: record.checkpoints, gate: record.gate,
            rule: TwoPersonRule(people: people, expire: .seconds(60)), recorder: record.recorder,
            clock: WallClock { RecordFixture.noon }, logger: RecordFixture.quiet)
        return Started(record: record, keyChange: keyChange, sealing: sealing)
    }

    /// Starts a daemon after the HSM token that sealed has been lost.
    private func startAfterLoss(
        people: Int = 1, widestWindow: Duration? = .seconds(300), _ lose: () -> Void
    ) async throws -> Started {
        let before = try await start()
        try await before.record.append(3)
        try await before.record.checkpoints.seal()
        let keys = try await before.record.ledger.auditKeys()
        await before.record.ledger.close()
        lose()
        return try await start(keys: keys, people: people, widestWindow: widestWindow)
    }

    private func change(
        _ started: Started, to name: String? = "second", isLost: Bool = true, dryRun: Bool = false
    ) async -> Result<AuditKeyChange.Outcome, Refusal> {
        do throws(Refusal) {
            return .success(
                try await started.keyChange.change(
                    to: name, isLost: isLost, reason: AuditReason("burnt"), by: caller, dryRun: dryRun,
                    draft: AuditDraft()))
        } catch {
            return .failure(error)
        }
    }

    private func changed(_ started: Started, to name: String? = "second") async throws -> (
        from: CheckpointKey, to: CheckpointKey
    ) {
        guard case .changed(let from, let to) = try await change(started, to: name).get() else {
            throw Refusal(.internalError, "It waits.")
        }
        return (from, to)
    }

    private func refusal(_ result: Result<AuditKeyChange.Outcome, Refusal>) -> RefusalCode? {
        if case .failure(let refusal) = result { refusal.code } else { nil }
    }

    /// The verdict of an auditor who has these keys.
    private func verdict(_ started: Started, _ keys: CheckpointKey...) async throws -> ChainVerdict {
        var verifier = ChainVerifier(keys: CheckpointKeys(keys), heads: [])
        for try await page in started.record.ledger.export() { verifier.consume(page.bytes[...]) }
        return verifier.verdict()
    }

    @Test("seals with another HSM token, records that the lost key does not vouch, and needs both keys for a verdict")
    func sealsElsewhere() async throws {
        let started = try await start()
        try await started.record.append(3)
        let sealed = try #require(try await started.record.checkpoints.seal()).checkpoint.sequence
        try await started.record.append(2)
        first.fail(at: .list)
        let (from, to) = try await changed(started)
        #expect(started.sealing.name == "second" && second.heads.count == 1 && first.keyCount == 1)
        let entries = try await started.record.entries
        let change = try #require(entries.last { $0.event == "audit_key_change" })
        #expect(change.details["formerKey"]?.stringValue == "lost" && change.hsmToken == "second")
        #expect(change.details["from"]?.stringValue == from.keyId.hex)
        #expect(entries.allSatisfy { $0.event != "audit_key_prepare" && $0.event != "ledger_accept_restore" })
        // The ledger had been compared with the lost HSM token, so it needs no fence.
        #expect(try await started.record.ledger.times().restoreFence == nil)

        let both = try await verdict(started, from, to)
        #expect(both.isIntact)
        #expect(
            both.description.hasSuffix(
                "; nothing here shows that the key before vouches for the key \(to.keyId.hex), which seals from record "
                    + "\(sealed + 1) on"))
        let end = "not signed by a given key: no given key vouches from record"
        #expect(try await verdict(started, from).description.hasSuffix("\(end) \(sealed + 1) on"))
        #expect(try await verdict(started, to).description.hasSuffix("\(end) 1 on"))
        let keys = try await started.record.ledger.auditKeys()
        await started.record.ledger.close()

        let next = try await start(keys: keys)
        #expect(next.record.gate.position == .open && next.sealing.name == "second")
        await next.record.ledger.close()
    }

    @Test("refuses the change while an HSM token shows the key, or is only busy")
    func present() async throws {
        let started = try await start()
        for dryRun in [true, false] {
            #expect(refusal(await change(started, dryRun: dryRun)) == .invalidState)
            #expect(refusal(await change(started, to: nil, dryRun: dryRun)) == .invalidState)
        }
        first.fail(at: .list, with: WorkerFailure(.overloaded, "busy"))
        #expect(refusal(await change(started)) == .overloaded)
        first.fail(at: .list, with: WorkerFailure(.loginRefused, "the PIN is wrong"))
        guard case .success(.wouldChange) = await change(started, dryRun: true) else {
            Issue.record("it was refused")
            return
        }
        try await started.expectUnchanged(second)
        #expect(started.sealing.name == "first" && first.keyCount == 1)
        await started.record.ledger.close()
    }

    @Test("finds the key in an HSM token that is configured under another name")
    func renamed() async throws {
        let started = try await startAfterLoss {}
        let renamed = SealingHSMToken(among: [second, first], keys: [])
        #expect(renamed.name == "second")
        let keyChange = AuditKeyChange(
            ledger: started.record.ledger, sealing: renamed, checkpoints: started.record.checkpoints,
            gate: started.record.gate, rule: TwoPersonRule(people: 1, expire: .seconds(60)),
            recorder: started.record.recorder, clock: WallClock { RecordFixture.noon }, logger: RecordFixture.quiet)
        let other = Started(record: started.record, keyChange: keyChange, sealing: renamed)
        #expect(refusal(await change(other)) == .invalidState)
        try await other.expectUnchanged(second)
        await started.record.ledger.close()
    }

    @Test("accepts a ledger that cannot be compared any more with a fence, and opens the gate")
    func neverCompared() async throws {
        let started = try await startAfterLoss { first.fail(at: .list) }
        #expect(started.record.gate.position == .waiting)
        #expect(refusal(await change(started, isLost: false)) == .ledgerUnavailable)
        let (from, to) = try await changed(started)
        #expect(started.record.gate.position == .open && started.sealing.name == "second")
        let accepted = try #require(try await started.record.entries.last { $0.event == "ledger_accept_restore" })
        #expect(accepted.details["tokenSequence"] == nil && accepted.details["servedFrom"] != nil)
        let fence = try await started.record.ledger.times().restoreFence
        #expect(fence == RecordFixture.noon.addingTimeInterval(300))
        #expect(try await verdict(started, from, to).isIntact)
        // An HSM token that comes back does not seal again.
        first.fail(at: nil)
        await started.record.gate.compare()
        try await started.record.append()
        #expect(try await started.record.checkpoints.seal()?.checkpoint.keyId == to.keyId)
        await started.record.ledger.close()
    }

    @Test("yields the position that the change opens, although the lost HSM token is never opened")
    func firstPosition() async throws {
        let started = try await startAfterLoss { first.fail(at: .list) }
        let (openings, opened) = AsyncStream.makeStream(of: Void.self)
        let comparing = started.record.gate.start(openings: openings) { false }
        _ = try await changed(started)
        var positions = started.record.gate.verdicts.makeAsyncIterator()
        #expect(await positions.next() == .open)
        opened.finish()
        comparing.cancel()
        await comparing.value
        await started.record.ledger.close()
    }

    @Test("makes another key in an HSM token that lost its objects")
    func emptied() async throws {
        let started = try await startAfterLoss {
            first.removeKeys()
            first.replaceHeads([])
        }
        guard case .anotherHSMToken? = started.record.gate.position.disagreement else {
            Issue.record("\(started.record.gate.position)")
            return
        }
        let (from, to) = try await changed(started, to: nil)
        #expect(started.record.gate.position == .open && started.sealing.name == "first" && first.keyCount == 1)
        #expect(try await verdict(started, from, to).isIntact)
        #expect(second.keyCount == 0)
        await started.record.ledger.close()
    }

    @Test("changes nothing while a signing-time window is off, since no fence is then safe")
    func windowOff() async throws {
        let started = try await startAfterLoss(widestWindow: nil) { first.fail(at: .list) }
        #expect(refusal(await change(started)) == .invalidState)
        #expect(started.record.gate.position == .waiting && started.sealing.name == "first")
        #expect(try await started.record.ledger.times().restoreFence == nil)
        await started.record.ledger.close()
    }

    @Test("needs a second person, whose approval says that the key is lost and permits no other change")
    func approved() async throws {
        let started = try await start(people: 2)
        guard case .success(.pending(let usual)) = await change(started, isLost: false) else {
            Issue.record("it does not wait")
            return
        }
        first.fail(at: .list)
        guard case .success(.pending(let lost)) = await change(started) else {
            Issue.record("it does not wait")
            return
        }
        let successors = try await started.keyChange.successors()
        #expect(successors[lost.parameters]?.replacesLostKey == true)
        #expect(successors[lost.parameters]?.hsmToken.name == "second")
        #expect(successors[usual.parameters]?.replacesLostKey == false && usual.parameters != lost.parameters)
        // The HSM token has come back before the approval.
        first.fail(at: nil)
        #expect(await carryOut(lost, started) == .invalidState)
        try await started.expectUnchanged(second)
        first.fail(at: .sign)
        #expect(await carryOut(usual, started) == .hsmUnavailable)
        first.fail(at: .list)
        #expect(await carryOut(lost, started, by: caller.uid) == .approvalInvalid)
        #expect(started.sealing.name == "first")
        #expect(await carryOut(lost, started) == nil)
        #expect(started.sealing.name == "second")
        let change = try #require(try await started.record.entries.last { $0.event == "audit_key_change" })
        #expect(change.details["approval"]?.stringValue == lost.identifier.hex)
        await started.record.ledger.close()
    }

    private func carryOut(_ approval: Approval, _ started: Started, by uid: UInt32 = 4242) async -> RefusalCode? {
        do throws(Refusal) {
            try await started.keyChange.carryOut(
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
