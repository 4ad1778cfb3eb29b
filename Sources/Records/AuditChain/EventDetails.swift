public import Refusals
internal import StrictJSON

/// The count of one uid's refusals within one minute that are not recorded individually. The daemon had not read the
/// requests completely, or they needed no signature from Apple. A client could therefore fill the record with a
/// flood of such requests.
public struct RefusalSummary: Sendable, Equatable {
    /// The beginning of the minute in which the refusals were counted.
    public let since: AuditTime
    /// The number of refusals for each code. Codes without a refusal are absent.
    public let counts: [RefusalCode: Int]

    /// Returns nil if nothing was counted. Counts below one are omitted.
    public init?(since: AuditTime, counts: [RefusalCode: Int]) {
        let counts = counts.filter { $0.value > 0 }
        guard !counts.isEmpty else { return nil }
        self.since = since
        self.counts = counts
    }

    /// The sum of ``counts``, or `Int.max` if the sum is larger.
    public var total: Int {
        counts.values.reduce(0) { $0.addingReportingOverflow($1).overflow ? .max : $0 + $1 }
    }

    /// The outcome of the summary's record: the most frequent code. If several are equally frequent, it is the first of
    /// them in alphabetical order.
    public var outcome: AuditOutcome {
        let leading = counts.max { left, right in
            left.value == right.value ? left.key.rawValue > right.key.rawValue : left.value < right.value
        }
        return leading.map { .refused($0.key) } ?? .ok
    }
}

extension AuditRecord {
    /// Creates the record for a summary of refusals. Its outcome is ``RefusalSummary/outcome``.
    public init(time: AuditTime, refusals: RefusalSummary, caller: AuditCaller?) {
        self.init(time: time, event: .refusals(refusals), outcome: refusals.outcome, caller: caller)
    }
}

/// The SHA-256 of each file whose code takes part in decrypting payments on a host.
public struct ProgramDigests: Sendable, Equatable {
    /// The digest of the running program `paytokend`; nil if its file could not be read.
    public var daemon: AuditDigest?
    /// The digest of the program `paytokend-hsm`, which every worker of this daemon runs; nil if its file could not
    /// be read.
    public var worker: AuditDigest?
    /// The digest of the package's list of components (CycloneDX); nil if no list is installed with the program.
    public var sbom: AuditDigest?
    /// The digests of the PKCS#11 libraries, by the HSM token's configured name. Libraries that could not be read
    /// are absent.
    public var modules: [String: AuditDigest]

    public init(
        daemon: AuditDigest? = nil, worker: AuditDigest? = nil, sbom: AuditDigest? = nil,
        modules: [String: AuditDigest] = [:]
    ) {
        (self.daemon, self.worker, self.sbom, self.modules) = (daemon, worker, sbom, modules)
    }

    func write(into writer: inout JSONWriter) {
        writer.member("paytokendSha256", daemon?.hex)
        writer.member("workerSha256", worker?.hex)
        writer.member("sbomSha256", sbom?.hex)
        guard !modules.isEmpty else { return }
        writer.member("modules") { writer in
            for (hsmToken, digest) in modules.sorted(by: { $0.key < $1.key }) {
                writer.member(hsmToken, digest.hex)
            }
        }
    }
}

/// The states of a key according to SP 800-57 part 1 §7. The raw values are part of the public contract.
public enum AuditKeyState: String, Sendable, CaseIterable {
    case preActivation = "pre-activation"
    case active
    case deactivated
    case suspended
    case compromised
    case destroyed
}

/// The previous and new state of a key, with the reason and the approval for the change.
public struct KeyStateChange: Sendable, Equatable {
    public var from: AuditKeyState?
    public var to: AuditKeyState?
    /// The time until which a deactivated key still decrypts; nil if it stops at once. Records of earlier versions do
    /// not have it.
    public var cutOff: AuditTime?
    /// The time at which a person removed the public key in Google's console; nil for keys of other wallets.
    public var removedAt: AuditTime?
    public var reason: AuditReason?
    public var approval: ApprovalIdentifier?

    public init(
        from: AuditKeyState?, to: AuditKeyState?, cutOff: AuditTime? = nil, removedAt: AuditTime? = nil,
        reason: AuditReason? = nil, approval: ApprovalIdentifier? = nil
    ) {
        self.removedAt = removedAt
        self.from = from
        self.to = to
        self.cutOff = cutOff
        self.reason = reason
        self.approval = approval
    }
}

/// An operation that needs a second person.
public enum ApprovalOperation: String, Sendable, CaseIterable {
    case keyDestroy = "key_destroy"
    case keyResume = "key_resume"
    case keyCompromise = "key_compromise"
    case keyImport = "key_import"
    case keyAdopt = "key_adopt"
    case keyAdoptGooglePay = "key_adopt_google_pay"
    case auditKeyChange = "audit_key_change"
    case ledgerAcceptRestore = "ledger_accept_restore"
    case ledgerAcceptClock = "ledger_accept_clock"
    case certificateCreate = "certificate_create"
    case certificateActivate = "certificate_activate"
    case certificateRevoke = "certificate_revoke"
}

/// A request for a second person's approval.
public struct ApprovalRequest: Sendable, Equatable {
    public var approval: ApprovalIdentifier
    public var operation: ApprovalOperation
    /// SHA-256 of the operation's parameters.
    public var parameters: AuditDigest
    public var reason: AuditReason?
    public var expires: AuditTime

    public init(
        approval: ApprovalIdentifier, operation: ApprovalOperation, parameters: AuditDigest, reason: AuditReason?,
        expires: AuditTime
    ) {
        self.approval = approval
        self.operation = operation
        self.parameters = parameters
        self.reason = reason
        self.expires = expires
    }
}

/// A decision on a request for approval. The daemon records `expire` if no person decided in time.
public enum ApprovalDecision: String, Sendable, CaseIterable {
    case approve
    case reject
    case withdraw
    case expire
}

/// The format of an export: JSON lines, or CSV, which cannot be verified.
public enum AuditExportFormat: String, Sendable, CaseIterable {
    case jsonl
    case csv
}

/// The verdict of a verification of the record as the daemon returns it, without an export file.
public enum AuditVerificationVerdict: String, Sendable, CaseIterable {
    case intact
    case unsealed
    case broken
}

/// A page for an assessor, as the program that made it describes it.
public struct ReportMade: Sendable, Equatable {
    /// The maximum number of nodes.
    public static let maximumNodes = 64

    /// SHA-256 of the page's file.
    public var page: AuditDigest
    public var since: AuditTime
    /// The end of the page's period, not included.
    public var until: AuditTime
    /// The last record of each node in the export from which the page was made.
    public var lastSequences: [(node: AuditNode, sequence: Int)]

    /// Returns nil for more than ``maximumNodes`` nodes, and if a node occurs twice.
    public init?(
        page: AuditDigest, since: AuditTime, until: AuditTime, lastSequences: [(node: AuditNode, sequence: Int)]
    ) {
        guard lastSequences.count <= Self.maximumNodes,
            Set(lastSequences.map(\.node)).count == lastSequences.count
        else { return nil }
        self.page = page
        self.since = since
        self.until = until
        self.lastSequences = lastSequences
    }

    public static func == (left: ReportMade, right: ReportMade) -> Bool {
        left.page == right.page && left.since == right.since && left.until == right.until
            && left.lastSequences.elementsEqual(right.lastSequences, by: ==)
    }

    func write(into writer: inout JSONWriter) {
        writer.member("pageSha256", page.hex)
        writer.member("since", since.text)
        writer.member("until", until.text)
        writer.member("lastSequences") { writer in
            for (node, sequence) in lastSequences { writer.member(node.name, sequence) }
        }
    }
}

/// The reason why an HSM token does not store the newest checkpoint.
public struct HeadMemoryLoss: Sendable, Equatable {
    /// The raw values are part of the public contract.
    public enum Cause: String, Sendable, CaseIterable {
        /// The HSM token refused to store the data object.
        case refused
        /// The call to store it hung.
        case hung
    }

    public var cause: Cause
    /// The failure as the HSM's worker reports it. It names the PKCS#11 call.
    public var message: AuditText

    public init(cause: Cause, message: AuditText) {
        self.cause = cause
        self.message = message
    }
}

/// The details of an administrator's acceptance of an older ledger.
public struct LedgerRestore: Sendable, Equatable {
    /// The last sequence of the accepted ledger.
    public var ledgerSequence: Int
    /// The sequence of the checkpoint that the HSM token remembered; nil if it remembered none.
    public var hsmTokenSequence: Int?
    /// The fence: after the acceptance, a payment token that was signed before this time and has no claim is refused.
    public var servedFrom: AuditTime?
    public var reason: AuditReason?
    public var approval: ApprovalIdentifier?

    public init(
        ledgerSequence: Int, hsmTokenSequence: Int?, servedFrom: AuditTime? = nil, reason: AuditReason?,
        approval: ApprovalIdentifier? = nil
    ) {
        self.ledgerSequence = ledgerSequence
        self.hsmTokenSequence = hsmTokenSequence
        self.servedFrom = servedFrom
        self.reason = reason
        self.approval = approval
    }
}

/// The details of an administrator's confirmation that the clock is right although times in the ledger contradict it.
public struct LedgerClockAcceptance: Sendable, Equatable {
    /// The time of the node's newest record, if it was ahead of the confirmed clock; otherwise nil.
    public var newestRecord: AuditTime?
    /// The limit before the confirmation: payment tokens signed earlier were refused, because a clock that was ahead
    /// had caused claims to be pruned. Nil if no claims were pruned.
    public var forgottenBefore: AuditTime?
    /// The time that replaces `forgottenBefore`; nil if it is unchanged.
    public var servedFrom: AuditTime?
    public var reason: AuditReason?
    public var approval: ApprovalIdentifier?

    public init(
        newestRecord: AuditTime? = nil, forgottenBefore: AuditTime? = nil, servedFrom: AuditTime? = nil,
        reason: AuditReason?, approval: ApprovalIdentifier? = nil
    ) {
        self.newestRecord = newestRecord
        self.forgottenBefore = forgottenBefore
        self.servedFrom = servedFrom
        self.reason = reason
        self.approval = approval
    }
}
