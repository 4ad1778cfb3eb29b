import AccessControl
import AuditChain
import Foundation
import Refusals
import TestSupport
import Testing

@testable import HostSystem
@testable import Ledger
@testable import SQLiteLedger
@testable import UsageRecording

/// Responses to callers while the ledger hangs.
@Suite struct HangingLedgerTests {
    private let hang = Hang()
    private let directory: FreshDirectory

    init() throws {
        directory = try FreshDirectory()
    }

    private func ledger() async throws -> SQLiteLedger {
        let ledger = try await SQLiteLedger.open(
            SQLiteLedger.Settings(path: directory.path("ledger.sqlite"), node: "node-1", timeout: .seconds(3600)))
        try await SQLiteFaults(beforeCommit: hang.pass).install(on: ledger.writer.connection)
        return ledger
    }

    private func recorder(_ ledger: SQLiteLedger, _ faults: FaultLog) -> UsageRecorder {
        let clock = WallClock { RecordFixture.noon }
        return UsageRecorder(ledger: ledger, tally: RefusalTally(clock: clock), faults: faults, clock: clock)
    }

    @Test("delays the first refusal at most until its deadline and later refusals not at all, and records each once")
    func refusalsDelayedOnce() async throws {
        let ledger = try await ledger()
        defer { hang.end() }
        let faults = FaultLog(logger: RecordFixture.quiet)
        let recorder = recorder(ledger, faults)
        let caller = RecordRoutesFixture.auditor
        hang.begin()
        let first = Begun { await recorder.refused(AuditDraft(), by: caller, .currencyMismatch) }
        try await hang.waitUntilBlocking()
        ledger.deadlines.expire(asOf: .max - 1)
        #expect(try await first.value() == nil)
        #expect(faults.isOngoing(FaultLog.ledger))
        // No deadline passes here, so these calls return because they do not wait.
        for _ in 0..<3 { #expect(await recorder.refused(AuditDraft(), by: caller, .amountMismatch) == nil) }
        #expect(hang.held == 1)
        hang.end()
        try await wait(for: "the records") { try await ledger.head().sequence >= 4 }
        let page = try await ledger.records(AuditFilter(), order: .oldestFirst, after: nil, limit: 100)
        let outcomes = try page.records.map { try AuditEntry(line: $0.line).outcome }
        #expect(outcomes == ["currency_mismatch"] + Array(repeating: "amount_mismatch", count: 3))
    }

    @Test("answers ledger_unavailable if a record must precede the answer")
    func precedingRecord() async throws {
        let ledger = try await ledger()
        defer { hang.end() }
        let recorder = recorder(ledger, FaultLog(logger: RecordFixture.quiet))
        hang.begin()
        let answer = Begun { () -> RefusalCode? in
            do throws(Refusal) {
                try await recorder.append(AuditRecord(time: AuditTime(RecordFixture.noon), event: .verify))
                return nil
            } catch {
                return error.code
            }
        }
        try await hang.waitUntilBlocking()
        ledger.deadlines.expire(asOf: .max - 1)
        #expect(try await answer.value() == .ledgerUnavailable)
        #expect(hang.held == 1)
    }

    @Test("tries one summary of refusals, not all, when the daemon stops and the ledger does not accept it")
    func oneSummaryTried() async throws {
        let ledger = try await ledger()
        defer { hang.end() }
        let clock = WallClock { RecordFixture.noon }
        let tally = RefusalTally(clock: clock)
        for uid: UInt32 in 1...5 { tally.count(.forbidden, of: PeerCredentials(uid: uid, gid: 0), as: nil) }
        hang.begin()
        let finish = Begun { await RefusalSummaries(tally: tally, ledger: ledger).finish() }
        try await hang.waitUntilBlocking()
        ledger.deadlines.expire(asOf: .max - 1)
        // `finish` must not try the other summaries, or it would never return.
        try await finish.value()
        #expect(hang.held == 1 && ledger.writer.writes.waiting == 0)
    }

    @Test("waits for a task that does not end no longer than its limit")
    func waitLimit() async throws {
        let (stream, end) = AsyncStream.makeStream(of: Int.self)
        let task = Task { await stream.first { _ in true } ?? 0 }
        #expect(await task.value(within: .milliseconds(10)) == nil)
        end.yield(7)
        #expect(await task.value(within: .seconds(3600)) == 7)
    }
}
