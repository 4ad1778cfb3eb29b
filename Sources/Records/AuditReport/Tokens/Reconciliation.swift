import AuditChain

/// The HSM tokens' counts of their keys' uses, compared with the record.
///
/// Some records show that an HSM token used a key. Others show only that it may have, since a call that ended without
/// an answer may have been executed. The record therefore gives a minimum and a maximum. Each use of a log is matched by
/// time with a record that explains it (``UseMatching``); of a counter, the uses beyond the maximum have no record. Such
/// uses did not pass through this program, or their records are lost.
public struct Reconciliation: Sendable {
    /// The records that show uses of one key: their number and, to compare with a log, their times.
    struct Recorded: Sendable {
        fileprivate(set) var least = 0
        fileprivate(set) var most = 0
        fileprivate var certain: [AuditTime] = []
        fileprivate var possible: [AuditTime] = []
    }

    public let logs: [TokenUseLog]
    /// The records of each key that may be uses in a log, for each log.
    private(set) var recorded: [[AuditDigest: Recorded]]
    /// The comparisons of all keys in a log or in the records that it covers, those with the greatest differences first.
    private(set) var comparisons: [[Comparison]]
    /// The records nearest to uses without a record, which the third pass finds, for each log.
    private var nearest: [NearestRecords]
    /// The nodes whose audit checkpoints each audit key signed last.
    private(set) var auditKeys: [AuditDigest: AuditNode] = [:]

    init(_ logs: [TokenUseLog]) {
        self.logs = logs
        recorded = Array(repeating: [:], count: logs.count)
        comparisons = logs.map { _ in [] }
        nearest = logs.map { _ in NearestRecords([]) }
    }

    /// The uses of one key, as the HSM token counted them and as the record shows them.
    struct Comparison: Sendable {
        let key: AuditDigest
        let counted: Int
        let recorded: Recorded
        /// The number of counted uses that no record explains and, of a log, their times.
        let unexplained: Int
        let times: [AuditTime]
        /// The number of certain uses in the record that the HSM token did not count.
        let missing: Int

        fileprivate init(_ key: AuditDigest, in log: TokenUseLog, _ recorded: Recorded) {
            (self.key, counted, self.recorded) = (key, log.uses[key] ?? 0, recorded)
            guard log.kind == .log else {
                (unexplained, times) = (max(0, counted - recorded.most), [])
                missing = max(0, recorded.least - counted)
                return
            }
            let (uses, certain) = (log.times[key] ?? [], recorded.certain.sorted())
            times = UseMatching(uses: uses, records: (certain + recorded.possible).sorted()).unexplained
            unexplained = times.count
            // The certain records alone explain as many uses of them as any assignment can.
            missing = certain.count - (uses.count - UseMatching(uses: uses, records: certain).unexplained.count)
        }
    }

    /// Compares logs and records, after the second pass, and prepares the third, which searches the records nearest to
    /// uses without one.
    ///
    /// - Returns: true if there are such uses in a log.
    mutating func compare(losses findings: [Finding]) -> Bool {
        comparisons = logs.indices.map { log in
            Set(logs[log].uses.keys).union(recorded[log].keys).map { key in
                Comparison(key, in: logs[log], recorded[log][key] ?? Recorded())
            }.sorted { left, right in
                (right.unexplained, right.missing, left.key.hex) < (left.unexplained, left.missing, right.key.hex)
            }
        }
        nearest = logs.indices.map { log in
            NearestRecords(unexplainedDays(of: log, findings).flatMap { $0.hours.flatMap { [$0.first, $0.last] } })
        }
        return nearest.contains { !$0.isEmpty }
    }

    /// Reads a record in the third pass.
    mutating func search(_ record: RecordMoment) {
        for log in logs.indices
        where !nearest[log].isEmpty && (logs[log].node ?? record.place.node) == record.place.node {
            nearest[log].take(record)
        }
    }

    /// The sum of ``Comparison/unexplained`` over all keys of all logs.
    public var unexplained: Int { comparisons.joined().reduce(0) { $0 + $1.unexplained } }

    /// The uses of a key on one day of a log that no record explains. The day is counted from 1970-01-01.
    struct UnexplainedDay: Sendable {
        let key: AuditDigest
        let day: Int
        /// The number of uses on this day by the log.
        let counted: Int
        let times: [AuditTime]
        /// The losses in whose time some of the uses are, and the uses that are in none.
        let losses: [Finding]
        let certain: [AuditTime]

        /// The uses in no loss, by hour.
        var hours: [(uses: Int, first: AuditTime, last: AuditTime)] {
            Dictionary(grouping: certain) { KeyUseTally.index($0, 3_600_000) }.sorted { $0.key < $1.key }.map {
                ($0.value.count, $0.value[0], $0.value[$0.value.count - 1])
            }
        }
    }

    /// Returns the days on which a log has uses that no record explains, in order of time.
    func unexplainedDays(of log: Int, _ findings: [Finding]) -> [UnexplainedDay] {
        let losses = losses(findings, of: log)
        func day(_ time: AuditTime) -> Int { KeyUseTally.index(time, 86_400_000) }
        return comparisons[log].flatMap { comparison -> [UnexplainedDay] in
            let counted =
                comparison.times.isEmpty
                ? [:]
                : (logs[log].times[comparison.key] ?? []).reduce(into: [Int: Int]()) { $0[day($1), default: 0] += 1 }
            return Dictionary(grouping: comparison.times, by: day).map { day, times in
                UnexplainedDay(
                    key: comparison.key, day: day, counted: counted[day] ?? 0, times: times,
                    losses: losses.filter { loss in times.contains { Self.isWithin(loss, $0) } },
                    certain: times.filter { time in !losses.contains { Self.isWithin($0, time) } })
            }
        }.sorted { ($0.day, $0.key.base64) < ($1.day, $1.key.base64) }
    }

    func nearest(to time: AuditTime, of log: Int) -> (before: RecordMoment?, after: RecordMoment?) {
        (nearest[log].before(time), nearest[log].after(time))
    }

    /// Returns those of the findings `records_lost` whose records may explain uses of a log.
    func losses(_ findings: [Finding], of log: Int) -> [Finding] {
        findings.filter { $0.kind == .recordsLost && (logs[log].node ?? $0.node) == $0.node }
    }

    /// Returns true if a lost record may explain a use of this time.
    private static func isWithin(_ loss: Finding, _ time: AuditTime) -> Bool {
        loss.since.map { $0.milliseconds - UseMatching.earliest <= time.milliseconds } ?? true
            && loss.until.map { time.milliseconds <= $0.milliseconds + UseMatching.latest } ?? true
    }

    /// The uses that are in no record, and those of them that lost records may explain. Both contain seals: uses of an
    /// audit key, whose audit checkpoints are never records of uses.
    struct Explained: Sendable, Equatable {
        var unexplained = 0
        var seals = 0
        var explainable = 0
        var explainableSeals = 0
        var certain: Int { unexplained - explainable }
    }

    /// Returns the sums over all logs.
    func explained(by findings: [Finding]) -> Explained {
        logs.indices.reduce(into: Explained()) { sum, log in
            let found = explained(by: findings, of: log)
            sum.unexplained += found.unexplained
            sum.seals += found.seals
            sum.explainable += found.explainable
            sum.explainableSeals += found.explainableSeals
        }
    }

    func explained(by findings: [Finding], of log: Int) -> Explained {
        let losses = losses(findings, of: log)
        var found = Explained()
        for areSeals in [true, false] {
            let uses = comparisons[log].filter { (auditKeys[$0.key] != nil) == areSeals }
            found.unexplained += uses.reduce(0) { $0 + $1.unexplained }
            let within = uses.flatMap(\.times).count { time in losses.contains { Self.isWithin($0, time) } }
            let sum = losses.reduce(0) { $0 + explainable(by: $1, of: log, areSeals: areSeals) }
            found.explainable += min(within, sum)
            if areSeals { (found.seals, found.explainableSeals) = (found.unexplained, found.explainable) }
        }
        return found
    }

    /// Returns the number of uses, or of seals, that the records of a loss explain at most. A lost record is of at most one
    /// use. Of the lost audit checkpoints, each sealed at least one lost record.
    func explainable(by loss: Finding, of log: Int, areSeals: Bool) -> Int {
        let uses = comparisons[log].filter { (auditKeys[$0.key] != nil) == areSeals }.flatMap(\.times)
        return min(loss.count ?? 0, uses.count { Self.isWithin(loss, $0) })
    }

    /// A finding for each key and day with uses that neither the record nor a loss of records explains, and one for each
    /// log of another HSM token than the record's.
    func findings(_ findings: [Finding], _ hsmTokens: HSMTokenRecords) -> [Finding] {
        logs.indices.flatMap { log -> [Finding] in
            let isOther = hsmTokens.hasOtherSerial(logs[log])
            var other = Finding(.otherSerial, logs[log].since)
            (other.node, other.hsmToken, other.serial) = (logs[log].node, logs[log].token, logs[log].serial)
            other.recordedSerials = hsmTokens.serials(of: logs[log])
            return (isOther ? [other] : [])
                + unexplainedDays(of: log, findings).compactMap { day in
                    guard let first = day.certain.first else { return nil }
                    var finding = Finding(.unrecordedUses, first)
                    (finding.since, finding.until) = (first, day.certain.last)
                    (finding.node, finding.hsmToken) = (logs[log].node, logs[log].token)
                    (finding.key, finding.count, finding.hasOtherSerial) = (day.key, day.certain.count, isOther)
                    return finding
                }
        }
    }

    /// Returns the times of a node's seals during a loss of its records, according to the HSM tokens' logs of its audit
    /// keys. The export has no checkpoint of that time.
    func seals(during loss: Finding) -> [AuditTime] {
        guard let node = loss.node, let since = loss.lastSeal ?? loss.since, let until = loss.until else { return [] }
        return logs.filter { ($0.node ?? node) == node }.flatMap { log in
            auditKeys.filter { $0.value == node }.flatMap { log.times[$0.key] ?? [] }
        }.filter { $0.milliseconds > since.milliseconds + TokenUseLog.margin && $0 < until }.sorted()
    }

    mutating func take(_ entry: AuditEntry) {
        guard let key = entry.publicKeyHash, let (least, most) = Self.uses(of: entry) else { return }
        add(key, least, most, node: entry.node, token: entry.hsmToken, at: entry.time)
    }

    /// Counts a checkpoint as one use of the audit key that signed it. The keyId serves as the publicKeyHash, since
    /// both are the same hash of a public key.
    mutating func take(_ checkpoint: Checkpoint) {
        auditKeys[checkpoint.keyId] = checkpoint.node
        add(checkpoint.keyId, 1, 1, node: checkpoint.node, token: nil, at: checkpoint.time)
    }

    private mutating func add(
        _ key: AuditDigest, _ least: Int, _ most: Int, node: AuditNode, token: String?, at time: AuditTime
    ) {
        for log in logs.indices {
            guard let isSure = logs[log].covers(node: node, token: token, at: time) else { continue }
            let certain = isSure ? least : 0
            recorded[log][key, default: Recorded()].least += certain
            recorded[log][key, default: Recorded()].most += most
            guard logs[log].kind == .log else { continue }
            for _ in 0..<certain { recorded[log][key]?.certain.append(time) }
            for _ in certain..<most { recorded[log][key]?.possible.append(time) }
        }
    }

    /// Returns the minimum and maximum number of uses that a record shows; nil if it shows no use in an HSM token.
    static func uses(of entry: AuditEntry) -> (least: Int, most: Int)? {
        let isDone = entry.outcome == AuditOutcome.ok.text
        switch AuditEvent.Name(rawValue: entry.event) {
        case .decrypt, .tlsSignature, .jwtSignature:
            // These records name the HSM token only if it has responded.
            if entry.hsmToken != nil { return (1, 1) }
            return entry.leavesUseOpen ? (0, 1) : nil
        // These records name the HSM token before it is called. A refusal without a name therefore used no HSM token.
        case .csrCreate where isDone || entry.hsmToken != nil,
            .keyProof where isDone || entry.hsmToken != nil && entry.details["hsm"] == nil:
            return (isDone ? 1 : 0, 1)
        // To test a key, the worker makes the HSM token use it twice with a peer key that the worker generated, and
        // compares the results.
        case .keyGenerate where isDone || entry.hsmToken != nil, .keyImport where isDone || entry.hsmToken != nil,
            .keyAdopt where isDone:
            return (0, 2)
        default: return nil
        }
    }
}
