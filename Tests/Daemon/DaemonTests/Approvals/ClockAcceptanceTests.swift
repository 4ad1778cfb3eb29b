import AccessControl
import AuditChain
import Foundation
import GRDB
import Ledger
import Refusals
import TestSupport
import Testing

@testable import Daemon
@testable import DaemonConfiguration
@testable import UsageRecording

/// The comparison of the daemon's clock with the ledger, and the acceptance of the present clock after a wrong clock has
/// affected the ledger.
@Suite("Accepting a clock")
struct ClockAcceptanceTests {
    private static let noon = RecordFixture.noon
    private static let day = 86_400.0

    private let directory: FreshDirectory
    private let hsmToken = SoftwareAuditToken()
    private var path: String { directory.path("ledger.sqlite") }

    init() throws {
        directory = try FreshDirectory()
    }

    /// A daemon that starts serving at `time`.
    private func daemon(
        at time: Date, people: Int = 2, window: Duration? = .seconds(300)
    ) async throws -> (fixture: RecordFixture, acceptance: ClockAcceptance) {
        let fixture = try await RecordFixture(ledger: path, hsmToken: hsmToken, at: time)
        await fixture.gate.compare()
        #expect(fixture.gate.position == .open)
        let clock = LedgerClock(ledger: fixture.ledger, clock: WallClock { time }) { window }
        return (
            fixture,
            ClockAcceptance(
                ledgerClock: clock, gate: fixture.gate, rule: TwoPersonRule(people: people, expire: .seconds(3600)),
                recorder: fixture.recorder, logger: RecordFixture.quiet)
        )
    }

    /// Prunes claims like an earlier process whose clock was ahead.
    private func forget(before time: Date) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.write { db in
            try db.execute(
                sql: "INSERT INTO ledger_meta VALUES ('forgotten_before', ?)",
                arguments: [String(Int64(time.timeIntervalSince1970 * 1000))])
        }
        try queue.close()
    }

    private static func caller(_ uid: UInt32, _ name: String = "staff") -> Caller {
        Caller(
            rule: AccessRule(name: name, user: .init(name: name, id: uid), roles: [.admin]),
            peer: PeerCredentials(uid: uid, gid: uid))
    }

    private static let reason = AuditReason("a year ahead")

    private func refusal(_ body: () async throws(Refusal) -> Void) async -> Refusal? {
        do throws(Refusal) {
            try await body()
            return nil
        } catch {
            return error
        }
    }

    @Test("reports with its own code a clock that is earlier than the forgotten claims, and measures the difference")
    func clockBeforeForgottenClaims() async throws {
        let (fixture, acceptance) = try await daemon(at: Self.noon)
        #expect(try await acceptance.ledgerClock.compare().reasons.isEmpty)
        #expect(try await acceptance.ledgerClock.compare().secondsBehind == 0)
        try forget(before: Self.noon + 300 * Self.day)
        let comparison = try await acceptance.ledgerClock.compare()
        let reason = try #require(comparison.reasons.first)
        #expect(comparison.reasons.count == 1 && reason.component == "clock" && reason.code == "transaction_replayed")
        #expect(reason.message.contains("2027-11-11T08:00:00Z") && reason.message.contains("/v1/ledger/accept-clock"))
        #expect(comparison.secondsBehind == 300 * Self.day)
        await fixture.ledger.close()
    }

    @Test("reports a clock that is earlier than the newest record by more than the window")
    func clockBeforeNewestRecord() async throws {
        let ahead = try await daemon(at: Self.noon + 301)
        try await ahead.fixture.append()
        await ahead.fixture.ledger.close()
        // The gate of `ahead` wrote a record with the time of that daemon's clock, 301 seconds after noon. No record has
        // a later time, because RecordFixture appends records with the time noon.
        let late = try await daemon(at: Self.noon)
        let reasons = try await late.acceptance.ledgerClock.compare().reasons
        #expect(reasons.map(\.code) == ["signing_time_outside_window"])
        #expect(reasons.first?.message.contains("2027-01-15T08:05:01Z") == true)
        #expect(try await late.acceptance.ledgerClock.compare().secondsBehind == 301)
        await late.fixture.ledger.close()
        let near = try await daemon(at: Self.noon + 1)
        #expect(try await near.acceptance.ledgerClock.compare().reasons.isEmpty)
        #expect(try await near.acceptance.ledgerClock.compare().secondsBehind == 300)
        await near.fixture.ledger.close()
    }

    @Test("accepts nothing when the clock is not late, and accepts the same state only once")
    func acceptsNothing() async throws {
        let (fixture, acceptance) = try await daemon(at: Self.noon, people: 1)
        let caller = Self.caller(1007)
        let none = await refusal { () throws(Refusal) in
            _ = try await acceptance.accept(reason: Self.reason, by: caller, dryRun: false, draft: AuditDraft())
        }
        #expect(none?.code == .invalidState && none?.message.contains("nothing to accept") == true)
        try forget(before: Self.noon + 300 * Self.day)
        _ = try await acceptance.accept(reason: Self.reason, by: caller, dryRun: false, draft: AuditDraft())
        let again = await refusal { () throws(Refusal) in
            _ = try await acceptance.accept(reason: Self.reason, by: caller, dryRun: false, draft: AuditDraft())
        }
        #expect(again?.code == .invalidState && again?.details?.contains("2027-01-15T08:05:00Z") == true)
        // The daemon is not ready before the time of the fence. The reason says that it then becomes ready without
        // further action.
        let reasons = try await acceptance.ledgerClock.compare().reasons
        #expect(reasons.first?.message.contains("without further action") == true)
        await fixture.ledger.close()
    }

    @Test("sets and records a fence at the acceptance plus the widest window; a dry run changes nothing")
    func recordsFence() async throws {
        let (fixture, acceptance) = try await daemon(at: Self.noon, people: 1)
        let ahead = Self.noon + 300 * Self.day
        try forget(before: ahead)
        let caller = Self.caller(1007)
        let head = try await fixture.ledger.head()
        guard
            case .wouldAccept(let plan) = try await acceptance.accept(
                reason: Self.reason, by: caller, dryRun: true, draft: AuditDraft())
        else {
            Issue.record("no dry run")
            return
        }
        #expect(plan.servedFrom == Self.noon + 300 && plan.forgottenBefore == ahead && plan.newestRecord == nil)
        #expect(try await fixture.ledger.head() == head)
        #expect(try await fixture.ledger.times().forgottenBefore == ahead)
        let draft = AuditDraft()
        _ = try await acceptance.accept(reason: Self.reason, by: caller, dryRun: false, draft: draft)
        #expect(try await fixture.ledger.times().forgottenBefore == Self.noon + 300)
        let entry = try #require(try await fixture.entries.last)
        #expect(entry.event == "ledger_accept_clock" && entry.sequence == draft.sequence)
        #expect(entry.details["forgottenBefore"]?.stringValue == AuditTime(ahead).text)
        #expect(entry.details["servedFrom"]?.stringValue == AuditTime(Self.noon + 300).text)
        #expect(entry.details["reason"]?.stringValue == "a year ahead")
        await fixture.ledger.close()
    }

    @Test("never sets the fence before the last release in the audit record, even with a slow clock")
    func slowClockAtAcceptance() async throws {
        let (fixture, acceptance) = try await daemon(at: Self.noon, people: 1)
        try forget(before: Self.noon + 300 * Self.day)
        // The daemon's clock is a day slow. The record contains a release with the correct time. The claim of this
        // release has been pruned.
        let release = Self.noon + Self.day
        _ = try await fixture.ledger.append(
            AuditRecord(time: AuditTime(release), event: .decrypt(reference: nil), outcome: .ok))
        _ = try await acceptance.accept(
            reason: Self.reason, by: Self.caller(1007), dryRun: false, draft: AuditDraft())
        #expect(try await fixture.ledger.times().forgottenBefore == release + 300)
        await fixture.ledger.close()
    }

    @Test("refuses the acceptance while a window is off, because nothing bounds the forgotten claims")
    func windowOff() async throws {
        let (fixture, acceptance) = try await daemon(at: Self.noon, people: 1, window: nil)
        try forget(before: Self.noon + 300 * Self.day)
        let refused = await refusal { () throws(Refusal) in
            _ = try await acceptance.accept(
                reason: Self.reason, by: Self.caller(1007), dryRun: false, draft: AuditDraft())
        }
        #expect(refused?.code == .invalidState && refused?.details == "signing_time_window")
        #expect(try await fixture.ledger.times().forgottenBefore == Self.noon + 300 * Self.day)
        await fixture.ledger.close()
    }

    @Test("accepts records of a clock that was ahead without a fence if no claim was forgotten")
    func recordsOnly() async throws {
        let ahead = try await daemon(at: Self.noon + 365 * Self.day)
        await ahead.fixture.ledger.close()
        let (fixture, acceptance) = try await daemon(at: Self.noon, people: 1, window: nil)
        #expect(try await acceptance.ledgerClock.compare().reasons.count == 1)
        guard
            case .accepted(let plan) = try await acceptance.accept(
                reason: Self.reason, by: Self.caller(1007), dryRun: false, draft: AuditDraft())
        else {
            Issue.record("not accepted")
            return
        }
        #expect(plan.servedFrom == nil && plan.newestRecord == Self.noon + 365 * Self.day)
        #expect(try await acceptance.ledgerClock.compare().reasons.isEmpty)
        #expect(try await acceptance.ledgerClock.compare().secondsBehind == 0)
        await fixture.ledger.close()
    }

    @Test("requires a second person for staff, and binds the approval to the state that was found")
    func twoPersons() async throws {
        let (fixture, acceptance) = try await daemon(at: Self.noon)
        let ahead = Self.noon + 300 * Self.day
        try forget(before: ahead)
        let draft = AuditDraft()
        guard
            case .pending(let approval) = try await acceptance.accept(
                reason: Self.reason, by: Self.caller(1007), dryRun: false, draft: draft)
        else {
            Issue.record("not pending")
            return
        }
        #expect(approval.operation == .ledgerAcceptClock)
        #expect(try await fixture.ledger.times().forgottenBefore == ahead)
        var other = approval
        other = Approval(
            identifier: approval.identifier, operation: approval.operation, parameters: .of([1]), key: nil,
            keyState: nil, requester: approval.requester, reason: approval.reason, requestedAt: approval.requestedAt,
            expires: approval.expires)
        let second = Self.caller(1008)
        let decision = AdministrativeChange(at: Self.noon, records: [])
        let refused = await refusal { () throws(Refusal) in
            try await acceptance.carryOut(other, decision, by: second, draft: AuditDraft())
        }
        #expect(refused?.code == .approvalInvalid)
        #expect(try await fixture.ledger.times().forgottenBefore == ahead)
        try await acceptance.carryOut(approval, decision, by: second, draft: AuditDraft())
        #expect(try await fixture.ledger.times().forgottenBefore == Self.noon + 300)
        #expect(try await fixture.entries.last?.details["approval"]?.stringValue == approval.identifier.hex)
        await fixture.ledger.close()
    }
}
