public import Refusals

/// Refusals of one uid within one minute that are not recorded one by one: before its requests were read whole, and floods of what
/// can be made without Apple's signature.
public struct RefusalSummary: Sendable, Equatable {
    /// When the minute began.
    public let since: AuditTime
    /// How often each code was given; each at least once.
    public let counts: [RefusalCode: Int]

    /// Nil when nothing was counted. Counts below one are left out.
    public init?(since: AuditTime, counts: [RefusalCode: Int]) {
        let counts = counts.filter { $0.value > 0 }
        guard !counts.isEmpty else { return nil }
        self.since = since
        self.counts = counts
    }

    /// All refusals together.
    public var total: Int {
        counts.values.reduce(0) { $0.addingReportingOverflow($1).overflow ? .max : $0 + $1 }
    }

    /// The code that was given most often, of equals the first by name: the outcome of the summary's record.
    public var outcome: AuditOutcome {
        let leading = counts.max { left, right in
            left.value == right.value ? left.key.rawValue > right.key.rawValue : left.value < right.value
        }
        return leading.map { .refused($0.key) } ?? .ok
    }
}

extension AuditRecord {
    /// The record of a flood.
    public init(time: AuditTime, refusals: RefusalSummary, caller: AuditCaller?) {
        self.init(time: time, event: .refusals(refusals), outcome: refusals.outcome, caller: caller)
    }
}

/// A key's states by SP 800-57 part 1 §7, in the words of the public contract.
public enum AuditKeyState: String, Sendable, CaseIterable {
    case preActivation = "pre-activation"
    case active
    case deactivated
    case suspended
    case compromised
    case destroyed
}

/// A key's change of state.
public struct KeyStateChange: Sendable, Equatable {
    public var from: AuditKeyState?
    public var to: AuditKeyState?
    public var reason: AuditReason?
    public var approval: ApprovalIdentifier?

    public init(
        from: AuditKeyState?, to: AuditKeyState?, reason: AuditReason? = nil, approval: ApprovalIdentifier? = nil
    ) {
        self.from = from
        self.to = to
        self.reason = reason
        self.approval = approval
    }
}

/// What needs a second person.
public enum ApprovalOperation: String, Sendable, CaseIterable {
    case keyDestroy = "key_destroy"
    case keyResume = "key_resume"
    case keyCompromise = "key_compromise"
    case keyImport = "key_import"
    case keyAdopt = "key_adopt"
    case auditKeyChange = "audit_key_change"
    case ledgerAcceptRestore = "ledger_accept_restore"
    case ledgerAcceptClock = "ledger_accept_clock"
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

/// How an approval ended.
public enum ApprovalDecision: String, Sendable, CaseIterable {
    case approve
    case reject
    case withdraw
    case expire
}

/// In which form records left.
public enum AuditExportFormat: String, Sendable, CaseIterable {
    case jsonl
    case csv
}

/// What a live verification found.
public enum AuditVerificationVerdict: String, Sendable, CaseIterable {
    case intact
    case unsealed
    case broken
}

/// An older ledger taken into service.
public struct LedgerRestore: Sendable, Equatable {
    /// The last sequence of the ledger that is taken.
    public var ledgerSequence: Int
    /// The sequence of the checkpoint that the token remembered; nil when it remembered none.
    public var hsmTokenSequence: Int?
    /// Payment tokens that were signed before this are refused from then on, where no claim is found.
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

/// A clock that was taken for right against what the ledger says of the time.
public struct LedgerClockAcceptance: Sendable, Equatable {
    /// The newest record until then, by a clock that was ahead; nil when the clock was not behind it.
    public var newestRecord: AuditTime?
    /// Tokens signed before this were refused until then, since a clock that was ahead had claims pruned; nil when none were.
    public var forgottenBefore: AuditTime?
    /// What replaces it; nil when it stays.
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
