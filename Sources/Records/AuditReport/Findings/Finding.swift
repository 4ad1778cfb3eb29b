public import AuditChain
import StrictJSON

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
        /// An HSM token did not answer, from the first request that was refused for it to the last.
        case hsmUnavailable = "hsm_unavailable"
        /// An HSM token did not store the record's newest checkpoint.
        case headMemoryLost = "head_memory_lost"
        /// Another audit key came into use for which the former one, which was lost, does not vouch.
        case auditKeyLost = "audit_key_lost"
        case clockSetBack = "clock_set_back"
        case clockAccepted = "clock_accepted"
        /// More than a day passed between two audit checkpoints of a node, with their ``count``, or after its last one, without.
        case sealsApart = "seals_apart"
        /// A person tried to approve their own request.
        case ownRequest = "own_request"
        case replays
        /// A caller had very many refused requests, which may be recorded only as sums.
        case manyRefusals = "many_refusals"
        /// A known caller had many refusals for reasons that no other known caller had.
        case ownRefusals = "own_refusals"
        case busyHour = "busy_hour"
        case unusualHour = "unusual_hour"
        case firstUse = "first_use"
        case unknownCallers = "unknown_callers"
        case keyCompromised = "key_compromised"
        case usedAfterSuperseded = "used_after_superseded"
        case certificateRefused = "certificate_refused"
        case keyNotDestroyed = "key_not_destroyed"
        case softwareToken = "software_token"
        /// An HSM token described a private key as insecure, or otherwise than the record does.
        case keyAttributes = "key_attributes"
        /// An HSM token's log names a serial number that no record has for this HSM token.
        case otherSerial = "other_serial"
        /// An HSM token counted uses of a key that neither the record nor a loss explains.
        case unrecordedUses = "unrecorded_uses"
        /// An HSM token counted more uses in the time of a loss than the lost records explain.
        case usesBeyondLoss = "uses_beyond_loss"
        /// An HSM token did not count uses that the record has.
        case uncountedUses = "uncounted_uses"
        /// An HSM token counted operations that a key of this type does not do.
        case otherOperation = "other_operation"
        /// An HSM token's log does not cover the period.
        case shortLog = "short_log"
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
    /// The first and the last sequence of lost records, of records whose times come after that of the next record, or of
    /// the records that the later one of two audit checkpoints seals.
    public var first: Int?
    public var last: Int?
    /// The time of ``first``, and that of the record before it, if the clock was set back after ``last``. If an HSM token did
    /// not answer, `before` is the time of the node's last use or audit checkpoint before.
    public var ahead: AuditTime?
    public var before: AuditTime?
    /// The requests that were refused with `signing_time_outside_window` between the last use before the clock was set
    /// back and the next one.
    public var refused: Int?
    /// Those of ``refused`` before the clock was set back.
    var refusedBefore: Int?
    /// The first and the last time, by a clock that was ahead, of the requests that it made the node refuse without a use
    /// between them, before it was set back.
    var refusedAhead: ClosedRange<AuditTime>?
    /// The first and the last time of those that the node refused between then and the next use.
    var refusedBack: ClosedRange<AuditTime>?
    /// The time of the next use after the clock was set back, or after an HSM token did not answer.
    public var nextUse: AuditTime?
    /// The time of the next audit checkpoint after an HSM token did not answer.
    var nextSeal: AuditTime?
    /// The time from which a restored ledger's node releases payments again, and that of the last checkpoint of its copy, or
    /// after the last record of a daemon that ended without a stop, after the first request whose record could not be
    /// written, or over the last record before the clock was set back, if it was set back before that checkpoint.
    var servedFrom: AuditTime?
    var lastSeal: AuditTime?
    /// The record directly before that of records that could not be written.
    var previous: RecordMoment?
    /// The requests for heads before and after lost records.
    var heads = HeadsOfLoss()
    /// The operation of the request that its own requester tried to approve; `stop` if this was a node's last act; the SHA-256 of
    /// a refused certificate.
    public var what: String?
    /// The warnings about a private key's attributes.
    var warnings: [JSONValue] = []
    /// The serial number of an HSM token's log, and those that records have for this HSM token.
    public var serial: String?
    public var recordedSerials: [String] = []
    /// True if the finding rests on a log for which there is a finding ``Kind/otherSerial``.
    public var hasOtherSerial = false
    /// True if a busy hour is an unusual one too.
    public var isUnusual = false
    /// The number of payments that were sent again, and those of them that no record of the export opened.
    public var payments: Int?
    var unopened = 0
    /// The records that first opened the payments that were sent again, by caller.
    var openers: [String: RequestsByKey] = [:]
    /// The time after which payment tokens that a deactivated key opened are late.
    var superseded: AuditTime?
    /// The time until which a deactivated key still decrypts.
    public var cutOff: AuditTime?
    /// The callers, with the number of their requests.
    public var callers: [String: Int] = [:]
    /// The publicKeyHashes of the payment tokens that were sent again, or of the uses of an hour, with their number.
    var keys: [String: Int] = [:]
    /// The refusals by code.
    var codes: [String: Int] = [:]
    /// The payment tokens that a key opened in the day before an HSM token described it with a warning.
    var usesBefore: [AuditTime] = []
    /// The uses by operation.
    var operations: [String: Int] = [:]
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

    init(_ kind: Kind, _ requests: RequestTally, of caller: String?) {
        self.init(kind, requests.first ?? .earliest)
        (self.caller, count, records) = (caller, requests.count, requests.records)
        (since, until) = (requests.first, requests.last)
    }

    /// Returns true if another node than the one that lost records answered a request in the time of the loss.
    ///
    /// - Parameters:
    ///   - ofNode: the node about which the other was asked, or `all`.
    ///   - isOfNode: false for requests about other nodes than the one that lost records.
    func isAnsweredElsewhere(
        _ ofNode: String?, _ place: RecordPlace, _ time: AuditTime, isOfNode: Bool = true
    ) -> Bool {
        [node?.name, "all"].contains(ofNode) == isOfNode && place.node != node && since.map { $0 <= time } ?? true
            && until.map { time <= $0 } ?? true
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

    /// Changes the last finding of this kind and node, if there is one.
    mutating func update(_ kind: Finding.Kind, of node: AuditNode, _ change: (inout Finding) -> Void) {
        guard let index = findings.lastIndex(where: { ($0.kind, $0.node) == (kind, node) }) else { return }
        change(&findings[index])
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
    func collectFindings(madeAt: AuditTime) -> (findings: [Finding], omitted: Int) {
        var list = incidents.findings
        let ofNodes = incidents.findingsOfNodes(in: period, upTo: min(period.until, madeAt))
        for finding in ofNodes { list.add(finding) }
        for finding in callerFindings + keyFindings + systemFindings + attributeFindings { list.add(finding) }
        let last = system.nodes.values.map(\.lastTime).max() ?? .earliest
        let algorithms = keys.compactMapValues { $0.facts?.algorithm }
        for finding in reconciliation.findings(list.findings, hsmTokens, upTo: last, algorithms: algorithms) {
            list.add(finding)
        }
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
            let request = act.approval.flatMap { acts.approvals[$0]?.request }
            (finding.node, finding.caller) = (act.place.node, act.by)
            (finding.key, finding.what) = (request?.key, request?.what)
            finding.records.add(act.place)
            return finding
        }
        return own + refusals.findings + CallerAnomaly.hours(uses)
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
