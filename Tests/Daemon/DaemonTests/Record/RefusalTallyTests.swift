import AccessControl
import AuditChain
import DaemonAPI
import Foundation
import Locks
import PaymentToken
import Refusals
import StrictJSON
import TestSupport
import Testing

@testable import DaemonConfiguration
@testable import UsageRecording

/// Refusals that the daemon counts, and summarises in one record for each uid and minute.
@Suite struct RefusalTallyTests {
    private final class Time: Sendable {
        private let seconds = Mutex(1_800_000_000.0)
        var clock: WallClock { WallClock { Date(timeIntervalSince1970: self.seconds.withLock { $0 }) } }
        func pass(_ interval: Double) { seconds.withLock { $0 += interval } }
    }

    private let time = Time()

    @Test("makes one record of a flood from one uid, with a count for each code")
    func flood() throws {
        let tally = RefusalTally(clock: time.clock)
        let peer = PeerCredentials(uid: 1000, gid: 100, pid: 7, comm: "flood")
        for _ in 0..<5000 { tally.count(.forbidden, of: peer, as: nil) }
        tally.count(.notFound, of: peer, as: nil)
        #expect(tally.take().isEmpty, "the minute is not over")
        time.pass(60)
        let records = tally.take()
        #expect(records.count == 1)
        guard case .refusals(let summary) = records[0].event else {
            Issue.record("\(records[0].event)")
            return
        }
        #expect(summary.counts == [.forbidden: 5000, .notFound: 1])
        #expect(summary.since == AuditTime(Date(timeIntervalSince1970: 1_800_000_000)))
        #expect(records[0].outcome == .refused(.forbidden))
        #expect(records[0].caller?.uid == 1000 && records[0].caller?.name == nil)
        #expect(tally.take(all: true).isEmpty, "taken once")
    }

    @Test("makes four records for two uids in two minutes")
    func twoUIDsInTwoMinutes() {
        let tally = RefusalTally(clock: time.clock)
        for _ in 0..<2 {
            for uid: UInt32 in [1, 2] {
                tally.count(.forbidden, of: PeerCredentials(uid: uid, gid: 0), as: Self.caller("x"))
            }
            time.pass(60)
        }
        #expect(tally.take().map { $0.caller?.uid } == [1, 2, 1, 2])
    }

    @Test("makes a record for each rule that a uid matched within a minute, and one for requests without a rule")
    func recordForEachRule() {
        let tally = RefusalTally(clock: time.clock)
        let peer = PeerCredentials(uid: 1, gid: 0)
        for name in ["checkout", nil, "reports", "checkout"] {
            tally.count(.forbidden, of: peer, as: name.map { Self.caller($0) })
        }
        time.pass(60)
        let records = tally.take()
        #expect(records.map { $0.caller?.name?.text } == [nil, "checkout", "reports"])
        let counts = records.map { auditRecord -> Int? in
            if case .refusals(let summary) = auditRecord.event { summary.counts[.forbidden] } else { nil }
        }
        #expect(counts == [1, 2, 1])
    }

    private static func caller(_ name: String) -> Caller {
        let rule = AccessRule(name: name, group: .init(name: "payments", id: 100), roles: [.decrypt])
        return Caller(rule: rule, peer: PeerCredentials(uid: 1000, gid: 100))
    }

    @Test("counts a call whose caller left before the call reached the HSM, and records it if the caller left later")
    func leavingCallers() async throws {
        let tally = RefusalTally(clock: time.clock)
        let (unread, read) = (AuditDraft(), AuditDraft())
        for draft in [unread, read] { draft.setEvent(.decrypt(reference: nil)) }
        read.setSubject(try PaymentToken(json: JSONValue(parsing: SharedForge.paymentToken().paymentData)))
        read.mayHaveReachedHSM(true)
        for number in 1...100 {
            #expect(
                tally.counts(.deadlineExceeded, of: unread.facts, by: Self.caller("shop"))
                    == (number > RefusalTally.maximumRecorded))
            #expect(!tally.counts(.deadlineExceeded, of: read.facts, by: Self.caller("shop")))
        }
        let records = tally.take(all: true)
        guard case .refusals(let summary)? = records.first?.event, records.count == 1 else {
            Issue.record("\(records)")
            return
        }
        #expect(summary.counts == [.deadlineExceeded: 40])
    }

    @Test("records sixty keyless refusals of a caller a minute singly and the rest in one record, and merges no others")
    func withoutKey() async throws {
        let directory = try FreshDirectory()
        let fixture = try await RecordFixture(
            ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken(), clock: time.clock)
        let recorder = fixture.recorder
        let paymentToken = try PaymentToken(json: JSONValue(parsing: SharedForge.paymentToken().paymentData))
        func refuse(
            _ code: RefusalCode, by name: String, event: AuditEvent = .verify, used: Bool = false, called: Bool = false
        ) async -> AuditReference? {
            let draft = AuditDraft()
            draft.setEvent(event)
            draft.setSubject(paymentToken)
            if used { draft.used(hsmToken: "primary") }
            draft.mayHaveReachedHSM(called)
            guard !recorder.counts(code, of: draft, by: Self.caller(name)) else { return nil }
            return await recorder.refused(draft, by: Self.caller(name), code)
        }
        for number in 1...200 {
            // Every other request has a payment token that Apple signed, but at a time outside the window.
            let code: RefusalCode = number.isMultiple(of: 2) ? .signatureInvalid : .signingTimeOutsideWindow
            #expect((await refuse(code, by: "shop") != nil) == (number <= RefusalTally.maximumRecorded))
        }
        // The limit does not apply to refusals after a use or a possible use of a key, to another caller, or to
        // administration.
        #expect(await refuse(.amountMismatch, by: "shop", event: .decrypt(reference: nil), used: true) != nil)
        #expect(await refuse(.decryptionFailed, by: "shop", event: .decrypt(reference: nil), called: true) != nil)
        #expect(await refuse(.hsmUnavailable, by: "shop", event: .decrypt(reference: nil)) == nil)
        #expect(await refuse(.signatureInvalid, by: "reports") != nil)
        #expect(await refuse(.malformedRequest, by: "shop", event: .csrCreate) != nil)
        #expect(try await fixture.ledger.head().sequence == RefusalTally.maximumRecorded + 4)
        time.pass(60)
        let records = recorder.tally.take()
        #expect(records.count == 1 && records[0].caller?.name?.text == "shop")
        guard case .refusals(let summary)? = records.first?.event else { return }
        #expect(summary.counts == [.signatureInvalid: 70, .signingTimeOutsideWindow: 70, .hsmUnavailable: 1])
        // In the next minute, refusals are recorded singly again.
        #expect(await refuse(.signatureInvalid, by: "shop") != nil)
    }

    @Test("gives some of many unnamed uids their own record, and the others one together")
    func manyUIDs() throws {
        let tally = RefusalTally(clock: time.clock)
        for caller in [nil, Self.caller("team")] {
            for uid: UInt32 in 1...500 { tally.count(.forbidden, of: PeerCredentials(uid: uid, gid: 0), as: caller) }
        }
        let named = AccessRule(name: "named", user: .init(name: "shop", id: 600), roles: [])
        let peer = PeerCredentials(uid: 600, gid: 0)
        tally.count(.forbidden, of: peer, as: Caller(rule: named, peer: peer))
        // Uid 1 already has its own record in this minute, so the tally counts this refusal in that record.
        tally.count(.notFound, of: PeerCredentials(uid: 1, gid: 0), as: nil)
        let records = tally.take(all: true)
        #expect(records.count == 2 * RefusalTally.maximumUnnamed + 2)
        let totals = records.map { auditRecord -> Int? in
            if case .refusals(let summary) = auditRecord.event { summary.total } else { nil }
        }
        #expect(records.last?.caller == nil && totals.last == 2 * (500 - RefusalTally.maximumUnnamed))
        #expect(records.first?.caller?.uid == 1 && totals.first == 2)
        #expect(records.dropLast().last?.caller?.name?.text == "named")
    }

    @Test("records the current minute when the daemon stops")
    func currentMinuteAtStop() {
        let tally = RefusalTally(clock: time.clock)
        tally.count(.requestTooLarge, of: PeerCredentials(uid: 1, gid: 0), as: nil)
        #expect(tally.take(all: true).count == 1)
    }
}
