import AuditChain
import Foundation
import Ledger
import Logging
import Refusals
import SQLiteLedger
import TestSupport
import Testing
import WorkerSupervision

@testable import UsageRecording

/// A ledger in a fresh directory with its recorder and seals, and an HSM token in software.
struct RecordFixture {
    let ledger: SQLiteLedger
    let hsmToken: any AuditHSMToken
    let checkpoints: Checkpoints
    let gate: LedgerGate
    let recorder: UsageRecorder
    let faults: FaultLog
    let unsealed: UnsealedRecords
    let check: RecordCheck

    static let noon = Date(timeIntervalSince1970: 1_800_000_000)
    static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    init(
        ledger path: String, node: String = "node-1", hsmToken: any AuditHSMToken, at time: Date = noon,
        widestWindow: Duration? = .seconds(300), clock: WallClock? = nil
    ) async throws {
        let unsealed = UnsealedRecords()
        self.unsealed = unsealed
        ledger = try await SQLiteLedger.open(SQLiteLedger.Settings(path: path, node: node)) { event in
            if case .recorded(let sequence) = event { unsealed.recorded(upTo: sequence) }
        }
        self.hsmToken = hsmToken
        let clock = clock ?? WallClock { time }
        check = RecordCheck(ledger: ledger, logger: Self.quiet)
        checkpoints = Checkpoints(
            ledger: ledger, hsmToken: hsmToken, unsealed: unsealed, clock: clock,
            check: check, logger: Self.quiet)
        gate = LedgerGate(
            ledger: ledger, hsmToken: hsmToken, checkpoints: checkpoints, clock: clock,
            logger: Self.quiet, widestWindow: { widestWindow })
        faults = FaultLog(logger: Self.quiet)
        recorder = UsageRecorder(
            ledger: ledger, tally: RefusalTally(clock: clock), faults: faults, clock: clock)
    }

    func append(_ count: Int = 1, at time: Date = noon) async throws {
        for _ in 0..<count { try await recorder.append(AuditRecord(time: AuditTime(time), event: .verify)) }
    }

    var entries: [AuditEntry] {
        get async throws {
            try await ledger.records(AuditFilter(), order: .oldestFirst, after: nil, limit: 1000).records.map {
                try AuditEntry(line: $0.line)
            }
        }
    }

    /// Verifies the record as an auditor with the daemon's public keys would.
    func verdict() async throws -> ChainVerdict {
        var verifier = ChainVerifier(keys: CheckpointKeys(try await checkpoints.keys()), heads: [])
        for try await page in ledger.export() { verifier.consume(page.bytes[...]) }
        return verifier.verdict()
    }

    static let root = AuditCaller(name: AuditText("root"), uid: 0, gid: 0)
}

extension LedgerGate.Position {
    var disagreement: LedgerDisagreement? {
        if case .held(let disagreement) = self { disagreement } else { nil }
    }
}

extension LedgerGate {
    /// Accepts the restore that the gate has detected.
    func acceptRestore(
        reason: AuditReason, by caller: AuditCaller
    ) async throws(Refusal) -> (ledgerSequence: Int, hsmTokenSequence: Int?) {
        let matter = try await detectedRestore()
        guard !matter.isEmpty else { throw Refusal(.invalidState, "nothing") }
        return try await acceptRestore(matter, reason: reason, by: caller)
    }
}

extension HSMTokenPool {
    /// One HSM token, `primary`, that is never opened.
    static func notStarted() throws -> HSMTokenPool {
        let settings = HSMTokenSettings(
            name: "primary", module: "/none", uri: "pkcs11:token=none", pinFile: "/none", sessions: 1,
            callTimeout: .seconds(10), recycleAfter: 1, allowExtractableSecret: false, environment: [:], initArgs: "")
        let executable = try WorkerExecutable(path: Program.built("paytokend-hsm"))
        return HSMTokenPool(
            first: HSMToken(settings, executable: executable, logger: RecordFixture.quiet), others: [])
    }
}
