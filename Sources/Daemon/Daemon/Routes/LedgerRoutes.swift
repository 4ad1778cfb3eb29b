import AuditChain
import DaemonAPI
import HTTPListener
import Ledger
import Refusals
import ServerProgram
import UsageRecording

/// The handlers of `POST /v1/ledger/backup`, `POST /v1/ledger/accept-restore` and `POST /v1/ledger/accept-clock`.
struct LedgerRoutes: Sendable {
    let ledger: any Ledger
    /// The path of the SQLite file; nil for PostgreSQL, whose own tools back it up.
    let path: String?
    let reads: any AuditReadRecording
    let checkpoints: any CheckpointSealing
    let restores: any RestoreAccepting
    let clocks: any ClockAccepting
    private let copyLock = LedgerCopyLock()

    /// Copies the ledger while the daemon serves. Returns the consistent copy with its size and digest, after recording
    /// them.
    func backup(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.ledgerBackup(bytes: nil, file: nil))
        _ = try EmptyRequest(parsing: request.body)
        guard let path else {
            throw Refusal(
                .invalidState,
                "This ledger is in PostgreSQL. Back it up with PostgreSQL's tools: pg_basebackup and a WAL archive, "
                    + "for a restore to any point in time, or pg_dump.")
        }
        let lease = try copyLock.acquire()
        if try request.isDryRun() { return try await dryRun() }
        let copy = try await LedgerCopy.make(of: ledger, nextTo: path, lease: lease)
        try await reads.recordRead(.ledgerBackup(bytes: copy.bytes, file: copy.digest), by: request)
        // The HSM token then remembers a record that the copy lacks. A ledger that is restored from the copy is thus
        // detected as older.
        try await checkpoints.seal()
        return EndpointAnswer(
            http: HTTPAnswer(
                status: 200,
                headers: [
                    HTTPAnswer.Header(name: "Content-Type", value: "application/octet-stream"),
                    // `Repr-Digest` is the digest of the whole copy (RFC 9530 §3).
                    HTTPAnswer.Header(name: "Repr-Digest", value: "sha-256=:\(copy.digest.base64):"),
                ],
                stream: BodyStream(length: copy.bytes) { writer in try await copy.write(to: writer) }))
    }

    func acceptRestore(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let body = try AcceptRestoreRequest(parsing: request.body)
        let outcome = try await restores.accept(
            reason: AuditReason(body.reason), withoutFinding: body.withoutFinding ?? false, by: request.knownCaller(),
            dryRun: request.isDryRun(), draft: request.draft)
        return switch outcome {
        case .accepted(let ledgerSequence, let hsmTokenSequence, let servedFrom):
            try .json(
                AcceptRestoreAnswer(
                    ledgerSequence: ledgerSequence, tokenSequence: hsmTokenSequence, servedFrom: servedFrom))
        case .wouldAccept(let ledgerSequence, let hsmTokenSequence):
            try .json(
                AcceptRestoreAnswer(
                    status: "unchanged", ledgerSequence: ledgerSequence, tokenSequence: hsmTokenSequence,
                    servedFrom: nil))
        case .pending(let approval): try .pending(approval)
        }
    }

    func acceptClock(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let body = try LedgerAcceptanceRequest(parsing: request.body)
        let outcome = try await clocks.accept(
            reason: AuditReason(body.reason), by: request.knownCaller(), dryRun: request.isDryRun(),
            draft: request.draft)
        return switch outcome {
        case .accepted(let plan): try .json(AcceptClockAnswer("accepted", plan))
        case .wouldAccept(let plan): try .json(AcceptClockAnswer("unchanged", plan))
        case .pending(let approval): try .pending(approval)
        }
    }

    /// Checks that the ledger could be copied now. Returns the last sequence that the copy would contain.
    private func dryRun() async throws(Refusal) -> EndpointAnswer {
        let head = try await refusing(ledger: await ledger.head())
        return try .json(LedgerBackupDryRun(ledgerSequence: head.sequence))
    }
}

extension AcceptClockAnswer {
    init(_ status: String, _ plan: ClockAcceptance.Plan) {
        self.init(
            status: status, clock: plan.now, newestRecord: plan.newestRecord, forgottenBefore: plan.forgottenBefore,
            servedFrom: plan.servedFrom)
    }
}
