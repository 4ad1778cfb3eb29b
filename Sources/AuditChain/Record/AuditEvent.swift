/// What happened, with the members that only this event has.
///
/// Everything that is optional is left out of the record when the event was refused before it was known.
public enum AuditEvent: Sendable, Equatable {
    /// `POST /v1/decrypt`. The reference is recorded as its SHA-256 only.
    case decrypt(reference: AuditDigest?)
    /// `POST /v1/verify`.
    case verify
    /// A request of an authorised caller that was refused before it reached an operation.
    case request
    /// Refusals before authorisation, counted: one record a uid and minute.
    case refusals(RefusalSummary)

    case start(version: AuditText)
    case stop
    /// At start. The SHA-256 of the configuration file.
    case configurationLoad(file: AuditDigest)
    /// At SIGHUP.
    case configurationReload(file: AuditDigest?)

    /// A private key came in by a file. The SHA-256 of the certificate in DER.
    case keyImport(certificate: AuditDigest?, approval: ApprovalIdentifier?)
    case keyGenerate
    case keyAdopt(approval: ApprovalIdentifier?)
    case csrCreate
    /// The SHA-256 of the certificate in DER.
    case certificateImport(certificate: AuditDigest?)
    case keyStateChange(KeyStateChange)

    case approvalRequest(ApprovalRequest)
    case approvalDecision(approval: ApprovalIdentifier?, decision: ApprovalDecision, reason: AuditReason?)

    /// How many records were shown.
    case auditList(records: Int?)
    /// The sequences from which and to which records were asked for.
    case auditExport(format: AuditExportFormat, first: Int?, last: Int?)
    case auditVerify(verdict: AuditVerificationVerdict?, records: Int?)
    case auditPublicKey
    /// The checkpoint key that was taken into service, by its keyId, and the one before.
    case auditKeyChange(from: AuditDigest?, to: AuditDigest, reason: AuditReason?, approval: ApprovalIdentifier?)

    /// The size of the copy in bytes, and its SHA-256.
    case ledgerBackup(bytes: Int?, file: AuditDigest?)
    /// An older ledger was taken into service knowingly: where it ends, and what the token remembered.
    case ledgerAcceptRestore(LedgerRestore)
    /// Claims older than `before` were removed.
    case claimsPrune(count: Int, before: AuditTime)
    /// So many records of refusals could not be written, the first of them at `since`.
    case recordsDropped(count: Int, since: AuditTime)
    /// The present clock was taken for right, and what a wrong one had made the ledger believe was taken back.
    case ledgerAcceptClock(LedgerClockAcceptance)

    /// The `event` member. It is public contract and never changes.
    public enum Name: String, Sendable, CaseIterable {
        case decrypt
        case verify
        case request
        case refusals
        case start
        case stop
        case configurationLoad = "configuration_load"
        case configurationReload = "configuration_reload"
        case keyImport = "key_import"
        case keyGenerate = "key_generate"
        case keyAdopt = "key_adopt"
        case csrCreate = "csr_create"
        case certificateImport = "certificate_import"
        case keyStateChange = "key_state_change"
        case approvalRequest = "approval_request"
        case approvalDecision = "approval_decision"
        case auditList = "audit_list"
        case auditExport = "audit_export"
        case auditVerify = "audit_verify"
        case auditPublicKey = "audit_public_key"
        case auditKeyChange = "audit_key_change"
        case ledgerBackup = "ledger_backup"
        case ledgerAcceptRestore = "ledger_accept_restore"
        case claimsPrune = "claims_prune"
        case recordsDropped = "records_dropped"
        case ledgerAcceptClock = "ledger_accept_clock"
    }

    public var name: Name {
        switch self {
        case .decrypt: .decrypt
        case .verify: .verify
        case .request: .request
        case .refusals: .refusals
        case .start: .start
        case .stop: .stop
        case .configurationLoad: .configurationLoad
        case .configurationReload: .configurationReload
        case .keyImport: .keyImport
        case .keyGenerate: .keyGenerate
        case .keyAdopt: .keyAdopt
        case .csrCreate: .csrCreate
        case .certificateImport: .certificateImport
        case .keyStateChange: .keyStateChange
        case .approvalRequest: .approvalRequest
        case .approvalDecision: .approvalDecision
        case .auditList: .auditList
        case .auditExport: .auditExport
        case .auditVerify: .auditVerify
        case .auditPublicKey: .auditPublicKey
        case .auditKeyChange: .auditKeyChange
        case .ledgerBackup: .ledgerBackup
        case .ledgerAcceptRestore: .ledgerAcceptRestore
        case .claimsPrune: .claimsPrune
        case .recordsDropped: .recordsDropped
        case .ledgerAcceptClock: .ledgerAcceptClock
        }
    }
}
