public import AuditChain

/// A fact in the record about which an assessor should ask. It is not a fault by itself.
///
/// scripts/recount-report finds each of them again from the export. The article Assessing defines the kinds.
public struct Finding: Sendable, Equatable {
    public enum Kind: String, Sendable, CaseIterable {
        /// A restored ledger lacks records that its HSM token had sealed.
        case recordsLost = "records_lost"
        /// Records of refusals could not be written.
        case recordsDropped = "records_dropped"
        case endedWithoutStop = "ended_without_stop"
        /// An HSM token did not store the record's newest checkpoint.
        case headMemoryLost = "head_memory_lost"
        /// Another audit key came into use for which the former one, which was lost, does not vouch.
        case auditKeyLost = "audit_key_lost"
        case clockSetBack = "clock_set_back"
        case clockAccepted = "clock_accepted"
        /// More than a day passed between two audit checkpoints of a node.
        case sealsApart = "seals_apart"
        /// A person tried to approve their own request.
        case ownRequest = "own_request"
        case replays
        /// A caller had very many refused requests, which may be recorded only as sums.
        case manyRefusals = "many_refusals"
        case busyHour = "busy_hour"
        case unusualHour = "unusual_hour"
        case firstUse = "first_use"
        case unknownCallers = "unknown_callers"
        case keyCompromised = "key_compromised"
        case usedAfterSuperseded = "used_after_superseded"
        case certificateRefused = "certificate_refused"
        case keyNotDestroyed = "key_not_destroyed"
        case softwareToken = "software_token"
        /// An HSM token counted uses of a key that neither the record nor a loss explains.
        case unrecordedUses = "unrecorded_uses"
    }

    public let kind: Kind
    /// The time by which findings are sorted.
    public let time: AuditTime
    public var node: AuditNode?
    public var key: AuditDigest?
    public var caller: String?
    public var hsmToken: String?
    public var since: AuditTime?
    public var until: AuditTime?
    public var count: Int?
    /// The first and the last sequence of lost records, or of records whose times come after that of the next record.
    public var first: Int?
    public var last: Int?
    /// The time of ``first``, and that of the record before it, if the clock was set back after ``last``.
    public var ahead: AuditTime?
    public var before: AuditTime?
    /// The number of payments that were sent again.
    public var payments: Int?
    /// The time until which a deactivated key still decrypts.
    public var cutOff: AuditTime?
    /// The callers, with the number of their requests.
    public var callers: [String: Int] = [:]
    /// The most uses in an hour of the preceding weeks.
    public var usual: Int?
    /// The records that show the finding.
    public var records = RecordReferences()

    init(_ kind: Kind, _ time: AuditTime) { (self.kind, self.time) = (kind, time) }

    init(_ kind: Kind, _ entry: AuditEntry) {
        self.init(kind, entry.time)
        node = entry.node
        records.add(entry)
    }

    /// The number of records that no longer exist or were never written; 0 for other kinds of findings.
    public var lostRecords: Int { [.recordsLost, .recordsDropped].contains(kind) ? count ?? 0 : 0 }
}

/// Findings in the order of their discovery. Of each kind, at most ``maximumOfKind`` are kept.
struct FindingList: Sendable, Equatable {
    private(set) var findings: [Finding] = []
    /// The number of findings that were not kept.
    private(set) var omitted = 0
    private var kept: [Finding.Kind: Int] = [:]

    static let maximumOfKind = 5_000

    mutating func add(_ finding: Finding) {
        guard kept[finding.kind, default: 0] < Self.maximumOfKind else {
            omitted += 1
            return
        }
        kept[finding.kind, default: 0] += 1
        findings.append(finding)
    }

    mutating func remove(_ kind: Finding.Kind, of node: AuditNode, at time: AuditTime) {
        guard let index = findings.lastIndex(where: { ($0.kind, $0.node, $0.time) == (kind, node, time) }) else {
            return
        }
        findings.remove(at: index)
        kept[kind, default: 0] -= 1
    }
}

extension ReportBuilder {
    /// Collects all findings, sorted by time, and the number of those that were too many of their kind.
    func collectFindings() -> (findings: [Finding], omitted: Int) {
        var list = incidents.findings
        for finding in incidents.findingsOfNodes { list.add(finding) }
        for finding in callerFindings + keyFindings + systemFindings { list.add(finding) }
        for finding in reconciliation.findings(list.findings) { list.add(finding) }
        return (list.findings.sorted(by: Self.order), list.omitted)
    }

    private static func order(_ left: Finding, _ right: Finding) -> Bool {
        func texts(_ finding: Finding) -> [String] {
            [
                finding.kind.rawValue, finding.node?.name ?? "", finding.key?.base64 ?? "", finding.caller ?? "",
                finding.hsmToken ?? "",
            ]
        }
        guard left.time == right.time else { return left.time < right.time }
        let (one, other) = (texts(left), texts(right))
        guard one == other else {
            return one.lexicographicallyPrecedes(other) { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        }
        return (left.records.parts.first?.first ?? 0) < (right.records.parts.first?.first ?? 0)
    }

    /// The findings about callers and people.
    private var callerFindings: [Finding] {
        let own = acts.acts.filter { act in
            act.event == AuditEvent.Name.approvalDecision.rawValue && act.outcome != AuditOutcome.ok.text
                && act.what == ApprovalDecision.approve.rawValue && act.by != nil
                && act.approval.flatMap { acts.approvals[$0]?.request?.by } == act.by
        }.map { act in
            var finding = Finding(.ownRequest, act.time)
            finding.node = act.place.node
            finding.caller = act.by
            finding.records.add(act.place)
            return finding
        }
        return own + refusals.findings + CallerAnomaly.busyHours(uses) + CallerAnomaly.unusualHours(uses)
            + CallerAnomaly.firstUses(uses) { keys[$0]?.activation?.time }
    }

    /// The findings about the configuration that was last in force.
    private var systemFindings: [Finding] {
        system.sortedNodes.flatMap { node in
            node.values.sorted { $0.key < $1.key }.compactMap { name, value in
                guard let set = node.settingsSince[name], name.hasPrefix("tokens."),
                    name.hasSuffix(".module"),
                    value.lowercased().contains("softhsm")
                else { return nil }
                var finding = Finding(.softwareToken, set.time)
                finding.node = node.node
                finding.hsmToken = String(name.dropFirst(7).dropLast(7))
                finding.records.add(set.place)
                return finding
            }
        }
    }
}
