public import AuditChain

/// The operations of people: administrative acts, and calls that read the record.
public struct AdministrativeActs: Sendable {
    /// One administrative operation of a person or the daemon, performed or refused.
    public struct Act: Sendable, Equatable {
        public let time: AuditTime
        public let place: RecordPlace
        public let event: String
        public let outcome: String
        public let by: String?
        public let uid: UInt32?
        public let loginUID: UInt32?
        public let key: AuditDigest?
        public let merchant: String?
        public let what: String?
        public let reason: String?
        public let approval: String?
        /// SHA-256 of the certificate, or of the file, and the file's size.
        let digest: String?
        let bytes: Int?
    }

    /// A request for a second person's approval, and its result.
    public struct Approval: Sendable, Equatable {
        public let identifier: String
        public internal(set) var request: Act?
        /// The decisions that took effect: `approve`, `reject` or `withdraw` with the outcome `ok`, or the daemon's
        /// `expire`.
        public internal(set) var decisions: [Act] = []

        /// The last decision, such as `approve`; `open` if there is none.
        public var end: String { decisions.last?.what ?? "open" }

        /// A phrase with the requester, the last decision, and the person who made it.
        public var sentence: String {
            let asked = "asked for by \(request?.by ?? "–")"
            guard let decision = decisions.last else { return asked + ", not decided yet" }
            return "\(asked), \(Self.endText(end))" + (decision.by.map { " by \($0)" } ?? "")
        }

        static func endText(_ end: String) -> String {
            switch end {
            case "approve": "approved"
            case "reject": "rejected"
            case "withdraw": "withdrawn"
            case "expire": "lapsed"
            default: end
            }
        }
    }

    /// The successful acts of one person, or of the daemon, in the period.
    public struct Person: Sendable, Equatable {
        public internal(set) var acts = RecordReferences()
        public internal(set) var alone = RecordReferences()
        public internal(set) var asked = RecordReferences()
        public internal(set) var decided = RecordReferences()
    }

    public private(set) var acts: [Act] = []
    /// The number of acts beyond ``maximumActs``, which are counted but not kept.
    public private(set) var omitted = 0
    /// The people by name. Every act is counted, even if it is not kept in ``acts``.
    public private(set) var people: [String: Person] = [:]
    /// The approvals by identifier, including those before and after the period, because a request may precede the
    /// period in which it was decided.
    public private(set) var approvals: [String: Approval] = [:]
    /// The number of requests in the period beyond ``maximumApprovals``, which are counted but not kept.
    public private(set) var omittedApprovals = 0
    /// The calls with which people read the record, such as lists and exports, by caller and event.
    public private(set) var readings: [Reading: RecordReferences] = [:]

    /// The exports in the period (`audit_export`, `ok`), at most ``maximumExports``, and the number of the others.
    private(set) var exports: [AuditEntry] = []
    private(set) var omittedExports = 0

    public struct Reading: Sendable, Hashable, Comparable {
        public let by: String
        public let event: String

        public static func < (left: Reading, right: Reading) -> Bool { (left.by, left.event) < (right.by, right.event) }
    }

    private static let (maximumActs, maximumApprovals, maximumExports) = (20_000, 50_000, 2_000)

    static let administrative: Set<AuditEvent.Name> = [
        .keyImport, .keyGenerate, .keyAdopt, .csrCreate, .keyProof, .certificateImport, .keyStateChange,
        .keyObjectsDestroy, .renewalStep,
        .approvalRequest, .approvalDecision, .auditKeyChange, .auditKeyPrepare, .ledgerBackup, .ledgerAcceptRestore,
        .ledgerAcceptClock, .configurationReload, .testKeysRemove,
    ]
    static let reading: Set<AuditEvent.Name> = [
        .auditList, .auditExport, .auditVerify, .auditPublicKey, .auditHead, .auditTokenUses,
    ]

    mutating func take(_ entry: AuditEntry, inPeriod: Bool) {
        guard let name = AuditEvent.Name(rawValue: entry.event) else { return }
        if Self.reading.contains(name), inPeriod {
            readings[Reading(by: entry.callerText ?? "-", event: entry.event), default: RecordReferences()].add(entry)
            if name == .auditExport, entry.outcome == AuditOutcome.ok.text {
                if exports.count < Self.maximumExports { exports.append(entry) } else { omittedExports += 1 }
            }
        }
        guard Self.administrative.contains(name) else { return }
        let act = Act(entry)
        // The daemon records an expiry without a caller. The expiry took effect although its outcome is a refusal, the
        // one that an approver would have received.
        let isExpiry = name == .approvalDecision && act.what == ApprovalDecision.expire.rawValue && entry.caller == nil
        if entry.outcome == AuditOutcome.ok.text || isExpiry, let identifier = act.approval {
            take(act, name, identifier, inPeriod: inPeriod)
        }
        guard inPeriod else { return }
        if act.outcome == AuditOutcome.ok.text { count(act, name, isFirstActivation: entry.isFirstActivation) }
        if acts.count < Self.maximumActs { acts.append(act) } else { omitted += 1 }
    }

    /// Returns a sentence about the approval that a record names; nil for a record without one.
    ///
    /// - Parameter time: the record's time. An approval that was decided later did not permit the act: the act, such as
    ///   a suspension, was permitted to one person, who asked for a second person's consent to the next step.
    func sentence(ofApproval identifier: String?, at time: AuditTime) -> String? {
        guard let identifier else { return nil }
        guard let approval = approvals[identifier] else {
            return "request \(identifier), \(omittedApprovals > 0 ? "not in this report" : "not in this export")"
        }
        guard let decision = approval.decisions.last, decision.time > time else { return approval.sentence }
        let decided = decision.time.text.prefix(19).replacing("T", with: " ")
        return "none for this act. Request for \(approval.request?.what ?? "the next step"): "
            + "\(approval.sentence) at \(decided)"
    }

    private mutating func count(_ act: Act, _ name: AuditEvent.Name, isFirstActivation: Bool) {
        var person = people[act.by ?? "the daemon"] ?? Person()
        person.acts.add(act.place)
        switch name {
        case .approvalRequest: person.asked.add(act.place)
        // A person who withdraws their own request has decided nothing for another.
        case .approvalDecision where act.what != ApprovalDecision.withdraw.rawValue: person.decided.add(act.place)
        case .approvalDecision: break
        case _ where act.by != nil && act.approval == nil && Self.needsTwo(name, act.what, isFirstActivation):
            person.alone.add(act.place)
        default: break
        }
        people[act.by ?? "the daemon"] = person
    }

    /// Returns true for an act that needs a second person if the rules require one. One person may activate a new key.
    private static func needsTwo(_ name: AuditEvent.Name, _ state: String?, _ isFirstActivation: Bool) -> Bool {
        switch name {
        case .keyImport, .keyAdopt, .auditKeyChange, .ledgerAcceptRestore, .ledgerAcceptClock: true
        case .keyStateChange:
            state == "destroyed" || state == "compromised" || state == "active" && !isFirstActivation
        case .renewalStep: state == "create" || state == "activate" || state == "revoke"
        default: false
        }
    }

    private mutating func take(_ act: Act, _ name: AuditEvent.Name, _ identifier: String, inPeriod: Bool) {
        guard approvals[identifier] != nil || approvals.count < Self.maximumApprovals else {
            if name == .approvalRequest, inPeriod { omittedApprovals += 1 }
            return
        }
        switch name {
        case .approvalRequest: approvals[identifier, default: Approval(identifier: identifier)].request = act
        case .approvalDecision:
            approvals[identifier, default: Approval(identifier: identifier)].decisions.append(act)
        default: break
        }
    }
}

extension AdministrativeActs.Act {
    init(_ entry: AuditEntry) {
        time = entry.time
        place = RecordPlace(entry)
        event = entry.event
        outcome = entry.outcome
        by = entry.callerText
        uid = entry.caller?.uid
        loginUID = entry.caller?.loginUID
        key = entry.publicKeyHash
        merchant = entry.merchant
        what = ["decision", "operation", "to", "step"].lazy.compactMap { entry.details[$0]?.stringValue }.first
        reason = entry.details["reason"]?.stringValue
        approval = entry.details["approval"]?.stringValue
        digest = (entry.details["certificateSha256"] ?? entry.details["fileSha256"])?.stringValue
        bytes = entry.details["bytes"]?.numberValue?.int
    }
}
