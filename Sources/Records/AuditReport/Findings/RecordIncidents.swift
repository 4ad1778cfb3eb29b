import AuditChain

/// A request for a head (`audit_head`) with `ok`. The daemon that is asked seals the record of the request, so its head
/// shows that record. Of another node it gives the newest audit checkpoint that this node made.
struct HeadRequest: Sendable, Equatable {
    let time: AuditTime
    let place: RecordPlace
    let by: String?

    init(_ entry: AuditEntry) { (time, place, by) = (entry.time, RecordPlace(entry), entry.callerText) }
}

/// The requests for heads of a node that lost records: the last one before, the first one after, and those that other
/// nodes answered in between.
struct HeadsOfLoss: Sendable, Equatable {
    var before: HeadRequest?
    var after: HeadRequest?
}

/// The incidents of each node's record: lost and unwritten records, ends of the daemon without a stop, clocks that were
/// set back, and long times between audit checkpoints. It reads the records of a node in their order.
struct RecordIncidents: Sendable {
    private(set) var findings = FindingList()

    private struct Node {
        /// The sequence and time of the last record.
        var last: (sequence: Int, time: AuditTime)?
        /// True after a start, false after a stop; nil if neither is known.
        var runs: Bool?
        /// The end of the ledger at the first start after which the node released and sealed nothing. If the ledger was
        /// restored, this is the end of the copy, since a node does neither until the copy is accepted.
        var copy: Copy?
        var lastSeal: Checkpoint?
        /// The interval between audit checkpoints that was longest, and the number of those over ``dayLength``.
        var longest: (since: Checkpoint, until: Checkpoint)?
        var intervalsOverADay = 0
        var lastHead: HeadRequest?
        /// True after a loss, until the next request for a head.
        var lacksHead = false
        /// The requests since the last use that were refused because of their signing times.
        var refused = RecordReferences()
        /// True after the clock was set back, until the next use; with the number of ``refused`` before.
        var wasSetBack = false
        var refusedBefore = 0
        /// True if the record at which the clock was set back is one of ``refused``.
        var isSetBackRefused = false
        /// The first and the last time of those of ``refused`` since then.
        var refusedBack: ClosedRange<AuditTime>?
        /// The requests since the last use that were refused because an HSM token did not answer, with the last use or
        /// audit checkpoint before them, and the first audit checkpoint after the last of them.
        var outage = (requests: RequestTally(), before: AuditTime?.none, nextSeal: AuditTime?.none)
        /// The time of the last use or audit checkpoint, which show that the HSM worked.
        var lastSign: AuditTime?
        /// The losses of an HSM token's memory of the record's end.
        var memoryLosses: Finding?
        /// The records at which the clock was set back, which the first pass has found, in their order.
        var setBacks: ArraySlice<SetBack> = []
        /// The records directly before the next of these that have later times, if the last record has one, with the time of
        /// the last record or audit checkpoint before them, and ``Finding/refusedAhead``.
        var ahead: (first: Int, before: AuditTime?, time: AuditTime, refused: ClosedRange<AuditTime>?)?

        /// Returns the time of the last audit checkpoint if it is in this time; nil otherwise.
        func lastSeal(after since: AuditTime?, upTo until: AuditTime) -> AuditTime? {
            lastSeal.flatMap { seal in since.map { $0 < seal.time && seal.time <= until } == true ? seal.time : nil }
        }

        /// The time of the last audit checkpoint if it seals the last record; nil otherwise.
        var sealOfLast: AuditTime? { lastSeal?.sequence == last?.sequence ? lastSeal?.time : nil }

        /// Returns the time of the last record, or of its audit checkpoint if its clock was not ahead of this time.
        func lastTime(upTo time: AuditTime) -> AuditTime? {
            last.map { last in sealOfLast.map { last.time <= $0 && $0 <= time ? $0 : last.time } ?? last.time }
        }
    }

    private struct SetBack {
        let time: AuditTime
        /// True if the clock was set back by more than the HSM token's clock and a host's may differ.
        let isWide: Bool
    }

    private struct Copy {
        let end: Int
        let endTime: AuditTime?
        let start: AuditTime
        let lastHead: HeadRequest?
        let lastSeal: AuditTime?
    }

    private var nodes: [AuditNode: Node] = [:]
    /// The requests for heads, with the node whose head was asked for; nil for all nodes. At most ``maximumHeads`` are
    /// kept.
    private var heads: [(of: String?, head: HeadRequest)] = []

    private static let maximumHeads = 20_000
    /// The least requests in a row that are a finding because an HSM token did not answer.
    static let outageLength = 3
    private static let dayLength: Int64 = 86_400_000
    /// The difference in milliseconds beyond which an earlier time is that of a clock that was set back. A record has
    /// the time at which its request began.
    private static let setBackLength: Int64 = 1000

    /// Takes note, in the first pass, of a record whose time is before that of the record before it.
    mutating func survey(_ entry: AuditEntry, after time: AuditTime) {
        guard entry.time.milliseconds + Self.setBackLength < time.milliseconds else { return }
        let isWide = entry.time.milliseconds + TokenUseLog.margin < time.milliseconds
        nodes[entry.node, default: Node()].setBacks.append(SetBack(time: entry.time, isWide: isWide))
    }

    /// Returns the first of the records that a clock that was ahead has written, if the node's last record, or an audit
    /// checkpoint of this time after it, is among them. Their times match no use in an HSM token's log.
    func misdated(_ node: AuditNode, _ time: AuditTime, in period: ReportPeriod) -> RecordPlace? {
        guard let ahead = nodes[node]?.ahead, let next = nodes[node]?.setBacks.first, next.isWide, time > next.time,
            period.contains(next.time)
        else { return nil }
        return RecordPlace(node, ahead.first)
    }

    mutating func take(_ entry: AuditEntry, inPeriod: Bool) {
        var node = nodes[entry.node] ?? Node()
        defer {
            node.last = (entry.sequence, entry.time)
            nodes[entry.node] = node
        }
        if let last = node.last, entry.time.milliseconds + Self.setBackLength < last.time.milliseconds {
            if inPeriod {
                findings.add(Self.setBack(entry, node, last))
                (node.wasSetBack, node.isSetBackRefused) = (true, Self.isRefusedForTime(entry))
                (node.refusedBefore, node.refusedBack) = (node.refused.count, nil)
            }
            (node.ahead, node.setBacks) = (nil, node.setBacks.dropFirst())
        }
        if let next = node.setBacks.first {
            let isAhead = entry.time > next.time
            node.ahead = isAhead ? node.ahead ?? (entry.sequence, node.lastTime(upTo: next.time), entry.time, nil) : nil
        }
        let isDone = entry.outcome == AuditOutcome.ok.text
        if inPeriod, entry.outcome == "hsm_unavailable" {
            if node.outage.requests.count == 0 { node.outage.before = node.lastSign }
            node.outage.requests.take(entry)
            node.outage.nextSeal = nil
        }
        switch AuditEvent.Name(rawValue: entry.event) {
        case .start:
            if inPeriod, node.runs == true, let last = node.last {
                var finding = Finding(.endedWithoutStop, entry)
                (finding.since, finding.until) = (last.time, entry.time)
                finding.lastSeal = node.lastSeal(after: last.time, upTo: entry.time)
                findings.add(finding)
            }
            node.runs = true
            node.copy =
                node.copy
                ?? Copy(
                    end: node.last?.sequence ?? 0, endTime: node.last?.time, start: entry.time, lastHead: node.lastHead,
                    lastSeal: node.lastSeal?.time)
        case .stop: node.runs = false
        case .ledgerAcceptRestore where isDone: takeRestore(entry, &node, inPeriod: inPeriod)
        case .ledgerAcceptClock where isDone && inPeriod:
            var finding = Finding(.clockAccepted, entry)
            finding.caller = entry.callerText
            findings.add(finding)
        case .auditKeyChange where isDone && inPeriod && entry.details["formerKey"] != nil:
            var finding = Finding(.auditKeyLost, entry)
            (finding.caller, finding.hsmToken) = (entry.callerText, entry.hsmToken)
            findings.add(finding)
        case .headMemoryLost where inPeriod:
            var finding = node.memoryLosses ?? Finding(.headMemoryLost, entry.time)
            finding.node = entry.node
            finding.hsmToken = finding.hsmToken ?? entry.hsmToken
            (finding.since, finding.until) = (finding.since ?? entry.time, entry.time)
            finding.records.add(entry)
            finding.count = finding.records.count
            node.memoryLosses = finding
        case .recordsDropped where inPeriod:
            var finding = Finding(.recordsDropped, entry)
            finding.since = entry.details["since"]?.stringValue.flatMap(AuditTime.init(stored:))
            finding.until = entry.time
            finding.lastSeal = node.lastSeal(after: finding.since, upTo: entry.time)
            finding.previous = node.last.map {
                RecordMoment(time: $0.time, place: RecordPlace(entry.node, $0.sequence))
            }
            finding.count = max(0, entry.details["count"]?.numberValue?.int ?? 0)
            findings.add(finding)
        case .decrypt, .tlsSignature: takeUse(entry, &node)
        case .auditHead where isDone: takeHead(entry, &node)
        default: break
        }
    }

    /// Returns true for a use that was refused because of the signing time, which a wrong clock causes.
    private static func isRefusedForTime(_ entry: AuditEntry) -> Bool {
        [AuditEvent.Name.decrypt, .tlsSignature].map(\.rawValue).contains(entry.event)
            && entry.outcome == "signing_time_outside_window"
    }

    private mutating func takeUse(_ entry: AuditEntry, _ node: inout Node) {
        if Self.isRefusedForTime(entry) {
            node.refused.add(entry)
            let known = node.ahead?.refused ?? entry.time...entry.time
            node.ahead?.refused = min(known.lowerBound, entry.time)...max(known.upperBound, entry.time)
            if node.wasSetBack {
                let first = min(node.refusedBack?.lowerBound ?? entry.time, entry.time)
                node.refusedBack = first...max(node.refusedBack?.upperBound ?? entry.time, entry.time)
            }
        }
        guard AuditOutcome.used.contains(entry.outcome) else { return }
        node.ahead?.refused = nil
        node.copy = nil
        if var outage = Self.outage(node, of: entry.node) {
            outage.nextUse = entry.time
            findings.add(outage)
        }
        node.outage = (RequestTally(), nil, nil)
        node.lastSign = entry.time
        if node.wasSetBack {
            let (refused, isSetBackRefused, before) = (node.refused, node.isSetBackRefused, node.refusedBefore)
            let refusedBack = node.refusedBack
            findings.update(.clockSetBack, of: entry.node) { finding in
                finding.refusedBack = refusedBack
                (finding.refused, finding.refusedBefore, finding.nextUse) = (refused.count, before, entry.time)
                if isSetBackRefused { finding.records = refused } else { finding.records.add(refused) }
            }
        }
        (node.refused, node.wasSetBack) = (RecordReferences(), false)
    }

    private mutating func takeHead(_ entry: AuditEntry, _ node: inout Node) {
        let (head, ofNode) = (HeadRequest(entry), entry.details["ofNode"]?.stringValue)
        if heads.count < Self.maximumHeads { heads.append((ofNode == "all" ? nil : ofNode ?? entry.node.name, head)) }
        guard ofNode == nil || ofNode == "all" || ofNode == entry.node.name else { return }
        node.lastHead = head
        if node.lacksHead { findings.update(.recordsLost, of: entry.node) { $0.heads.after = head } }
        node.lacksHead = false
    }

    /// Returns the last request for a head of this node that it answered itself.
    func lastHead(of node: AuditNode) -> HeadRequest? { nodes[node]?.lastHead }

    /// Returns the requests for heads that other nodes answered while the records were lost.
    ///
    /// - Parameter isOfNode: true for heads of the node that lost the records, false for heads of other nodes only.
    func heads(_ loss: Finding, isOfNode: Bool) -> [HeadRequest] {
        heads.filter { of, head in
            loss.isAnsweredElsewhere(of ?? loss.node?.name, head.place, head.time, isOfNode: isOfNode)
        }.map(\.head).sorted { ($0.time, $0.place) < ($1.time, $1.place) }
    }

    /// Returns the finding that an HSM token did not answer; nil for fewer requests than ``outageLength``.
    private static func outage(_ node: Node, of name: AuditNode) -> Finding? {
        guard node.outage.requests.count >= outageLength else { return nil }
        var finding = Finding(.hsmUnavailable, node.outage.requests, of: nil)
        (finding.node, finding.before, finding.nextSeal) = (name, node.outage.before, node.outage.nextSeal)
        return finding
    }

    /// Returns the finding that the clock was set back, and between which records it had been set forward.
    private static func setBack(_ entry: AuditEntry, _ node: Node, _ last: (sequence: Int, time: AuditTime)) -> Finding
    {
        var finding = Finding(.clockSetBack, entry)
        (finding.since, finding.until) = (last.time, entry.time)
        finding.lastSeal = node.sealOfLast.flatMap {
            $0.milliseconds + setBackLength < last.time.milliseconds ? $0 : nil
        }
        guard let ahead = node.ahead else { return finding }
        finding.refusedAhead = ahead.refused
        (finding.first, finding.last, finding.count) = (ahead.first, last.sequence, last.sequence - ahead.first + 1)
        (finding.before, finding.ahead) = (ahead.before, ahead.time)
        return finding
    }

    /// The ledger was restored from a copy, which ends where the ledger ended at the daemon's start. The HSM token
    /// remembered a later record.
    private mutating func takeRestore(_ entry: AuditEntry, _ node: inout Node, inPeriod: Bool) {
        let copy = node.copy
        node.copy = nil
        guard let remembered = entry.details["tokenSequence"]?.numberValue?.int, inPeriod else { return }
        // Without a start before it, the ledger changed under a running daemon. Its end at that time is not recorded.
        let end = copy?.end ?? entry.details["ledgerSequence"]?.numberValue?.int ?? 0
        if let copy { findings.remove(.endedWithoutStop, of: entry.node, at: copy.start) }
        guard remembered > end else { return }
        var finding = Finding(.recordsLost, entry)
        (finding.first, finding.last, finding.count) = (end + 1, remembered, remembered - end)
        (finding.since, finding.until) = (copy?.endTime, copy?.start)
        finding.caller = entry.callerText
        finding.servedFrom = entry.details["servedFrom"]?.stringValue.flatMap(AuditTime.init(stored:))
        finding.lastSeal = copy?.lastSeal
        (finding.heads.before, node.lacksHead) = (copy.map(\.lastHead) ?? node.lastHead, true)
        findings.add(finding)
    }

    mutating func take(_ checkpoint: Checkpoint, in period: ReportPeriod) {
        var node = nodes[checkpoint.node] ?? Node()
        defer { nodes[checkpoint.node] = node }
        // An interval counts if a part of it is in the period.
        if let last = node.lastSeal, last.time < period.until, checkpoint.time >= period.since {
            let length = checkpoint.time.milliseconds - last.time.milliseconds
            if length > Self.dayLength { node.intervalsOverADay += 1 }
            if length > node.longest.map({ $0.until.time.milliseconds - $0.since.time.milliseconds }) ?? Self.dayLength
            {
                node.longest = (last, checkpoint)
            }
        }
        node.lastSeal = checkpoint
        node.lastSign = checkpoint.time
        if node.outage.requests.count > 0 { node.outage.nextSeal = node.outage.nextSeal ?? checkpoint.time }
        node.copy = nil
    }

    /// One finding for each node whose HSM token did not store the record's end or does not answer at the end, one for each node of
    /// which two audit checkpoints were more than a day apart, and one for each whose last one is more than a day before the end.
    ///
    /// - Parameter end: the end of the period, or the time at which the report is made, if earlier.
    func findingsOfNodes(in period: ReportPeriod, upTo end: AuditTime) -> [Finding] {
        nodes.values.compactMap(\.memoryLosses) + nodes.compactMap { Self.outage($1, of: $0) }
            + nodes.compactMap { Self.earlyEnd($1, of: $0, in: period, at: end) }
            + nodes.compactMap { name, node -> Finding? in
                guard let longest = node.longest else { return nil }
                let (since, until) = longest
                var finding = Finding(.sealsApart, since.time)
                finding.node = name
                (finding.since, finding.until, finding.count) = (since.time, until.time, node.intervalsOverADay)
                if until.sequence > since.sequence {
                    (finding.first, finding.last) = (since.sequence + 1, until.sequence)
                }
                return finding
            }
    }

    /// Returns the finding that the last audit checkpoint is more than a day before the end; nil for a node that stopped before the
    /// period, as a node that was removed.
    private static func earlyEnd(
        _ node: Node, of name: AuditNode, in period: ReportPeriod, at end: AuditTime
    ) -> Finding? {
        guard let last = node.lastSeal?.time, end.milliseconds - last.milliseconds > dayLength,
            node.runs != false || last >= period.since
        else { return nil }
        var finding = Finding(.sealsApart, last)
        (finding.node, finding.since, finding.until) = (name, last, end)
        finding.what = node.runs == false ? AuditEvent.Name.stop.rawValue : nil
        return finding
    }
}
