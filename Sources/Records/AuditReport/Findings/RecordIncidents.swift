import AuditChain

/// The incidents of each node's record: lost and unwritten records, ends of the daemon without a stop, clocks that were
/// set back, and long times between audit checkpoints. It reads the records of a node in their order.
struct RecordIncidents: Sendable {
    private(set) var findings = FindingList()

    private struct Node {
        /// The sequence and time of the last record.
        var last: (sequence: Int, time: AuditTime)?
        var hasStopped = true
        /// The end of the ledger at the first start after which the node released and sealed nothing. If the ledger was
        /// restored, this is the end of the copy, since a node does neither until the copy is accepted.
        var copy: Copy?
        var lastSeal: AuditTime?
        /// The interval between audit checkpoints that was longest, and the number of those over ``dayLength``.
        var longest: (since: AuditTime, until: AuditTime)?
        var intervalsOverADay = 0
        /// The losses of an HSM token's memory of the record's end.
        var memoryLosses: Finding?
        /// The records at which the clock was set back, which the first pass has found, in their order.
        var setBacks: ArraySlice<SetBack> = []
        /// The records directly before the next of these that have later times, if the last record has one.
        var ahead: (first: Int, before: AuditTime?, time: AuditTime)?
    }

    private struct SetBack {
        let sequence: Int
        let time: AuditTime
    }

    private struct Copy {
        let end: Int
        let endTime: AuditTime?
        let start: AuditTime
    }

    private var nodes: [AuditNode: Node] = [:]

    private static let dayLength: Int64 = 86_400_000
    /// The difference in milliseconds beyond which an earlier time is that of a clock that was set back. A record has
    /// the time at which its request began.
    private static let setBackLength: Int64 = 1000

    /// Takes note, in the first pass, of a record whose time is before that of the record before it.
    mutating func survey(_ entry: AuditEntry, after time: AuditTime) {
        guard entry.time.milliseconds + Self.setBackLength < time.milliseconds else { return }
        nodes[entry.node, default: Node()].setBacks.append(SetBack(sequence: entry.sequence, time: entry.time))
    }

    mutating func take(_ entry: AuditEntry, inPeriod: Bool) {
        var node = nodes[entry.node] ?? Node()
        defer {
            node.last = (entry.sequence, entry.time)
            nodes[entry.node] = node
        }
        if let last = node.last, entry.time.milliseconds + Self.setBackLength < last.time.milliseconds {
            if inPeriod { findings.add(Self.setBack(entry, node, last)) }
            (node.ahead, node.setBacks) = (nil, node.setBacks.dropFirst())
        }
        if let next = node.setBacks.first {
            let isAhead = entry.time > next.time
            node.ahead = isAhead ? node.ahead ?? (entry.sequence, node.last?.time, entry.time) : nil
        }
        let isDone = entry.outcome == AuditOutcome.ok.text
        switch AuditEvent.Name(rawValue: entry.event) {
        case .start:
            if inPeriod, !node.hasStopped, let last = node.last {
                var finding = Finding(.endedWithoutStop, entry)
                (finding.since, finding.until) = (last.time, entry.time)
                findings.add(finding)
            }
            node.hasStopped = false
            node.copy = node.copy ?? Copy(end: node.last?.sequence ?? 0, endTime: node.last?.time, start: entry.time)
        case .stop: node.hasStopped = true
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
            finding.count = max(0, entry.details["count"]?.numberValue?.int ?? 0)
            findings.add(finding)
        case .decrypt, .tlsSignature:
            if AuditOutcome.used.contains(entry.outcome) { node.copy = nil }
        default: break
        }
    }

    /// Returns the finding that the clock was set back, and between which records it had been set forward.
    private static func setBack(_ entry: AuditEntry, _ node: Node, _ last: (sequence: Int, time: AuditTime)) -> Finding
    {
        var finding = Finding(.clockSetBack, entry)
        (finding.since, finding.until) = (last.time, entry.time)
        guard let ahead = node.ahead else { return finding }
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
        findings.add(finding)
    }

    mutating func take(_ checkpoint: Checkpoint, inPeriod: Bool) {
        var node = nodes[checkpoint.node] ?? Node()
        defer { nodes[checkpoint.node] = node }
        if inPeriod, let last = node.lastSeal {
            let length = checkpoint.time.milliseconds - last.milliseconds
            if length > Self.dayLength { node.intervalsOverADay += 1 }
            if length > node.longest.map({ $0.until.milliseconds - $0.since.milliseconds }) ?? Self.dayLength {
                node.longest = (last, checkpoint.time)
            }
        }
        node.lastSeal = checkpoint.time
        node.copy = nil
    }

    /// One finding for each node whose HSM token did not store the record's end, and one for each node of which two
    /// audit checkpoints were more than a day apart.
    var findingsOfNodes: [Finding] {
        nodes.values.compactMap(\.memoryLosses)
            + nodes.compactMap { name, node -> Finding? in
                guard let longest = node.longest else { return nil }
                var finding = Finding(.sealsApart, longest.since)
                finding.node = name
                (finding.since, finding.until, finding.count) = (longest.since, longest.until, node.intervalsOverADay)
                return finding
            }
    }
}
