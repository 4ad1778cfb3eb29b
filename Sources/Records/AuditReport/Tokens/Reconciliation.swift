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
    private let period: ReportPeriod
    /// The records of certain uses in the period whose times a log does not cover, for each log.
    private var outside: [Int]
    /// The records of each key that may be uses in a log, for each log.
    private(set) var recorded: [[AuditDigest: Recorded]]
    /// The comparisons of all keys in a log or in the records that it covers, those with the greatest differences first.
    private(set) var comparisons: [[Comparison]]
    /// The records nearest to uses without a record, which the third pass finds, for each log: those of the same key. For
    /// audit keys, which no record of a use names, all records are under nil.
    private var nearest: [[AuditDigest?: NearestRecords]]
    /// The uses and the seals in records whose times a wrong clock has set, for each log, by the first of these records. No
    /// time matches them.
    private var misdated: [[RecordPlace: (uses: Int, seals: [AuditTime])]]
    /// The nodes whose audit checkpoints each audit key signed last.
    private(set) var auditKeys: [AuditDigest: AuditNode] = [:]

    init(_ logs: [TokenUseLog], in period: ReportPeriod) {
        (self.logs, self.period) = (logs, period)
        outside = logs.map { _ in 0 }
        recorded = Array(repeating: [:], count: logs.count)
        comparisons = logs.map { _ in [] }
        nearest = logs.map { _ in [:] }
        misdated = logs.map { _ in [:] }
    }

    /// The uses of one key, as the HSM token counted them and as the record shows them.
    struct Comparison: Sendable {
        let key: AuditDigest
        let counted: Int
        let recorded: Recorded
        /// The number of counted uses that no record explains and, of a log, their times.
        let unexplained: Int
        let times: [AuditTime]
        /// The number of certain uses in the record that the HSM token did not count and, of a log, the times of the records.
        let missing: Int
        let missingTimes: [AuditTime]
        /// The number of counted uses that only records of uncertain uses explain.
        var perhaps: Int { counted - unexplained - recorded.least + missing }

        fileprivate init(_ key: AuditDigest, in log: TokenUseLog, _ recorded: Recorded) {
            (self.key, counted, self.recorded) = (key, log.uses[key] ?? 0, recorded)
            guard log.kind == .log else {
                (unexplained, times) = (max(0, counted - recorded.most), [])
                (missing, missingTimes) = (max(0, recorded.least - counted), [])
                return
            }
            let (uses, certain) = (log.times[key] ?? [], recorded.certain.sorted())
            times = UseMatching(uses: uses, records: (certain + recorded.possible).sorted()).unexplained
            unexplained = times.count
            // The certain records alone explain as many uses of them as any assignment can.
            missingTimes = UseMatching(uses: uses, records: certain).unused
            missing = missingTimes.count
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
            Dictionary(grouping: unexplainedDays(of: log, findings)) { auditKeys[$0.key] == nil ? $0.key : nil }
                .mapValues { days in NearestRecords(days.flatMap { $0.hours.flatMap { [$0.first, $0.last] } }) }
                .filter { !$0.value.isEmpty }
        }
        return nearest.contains { !$0.isEmpty }
    }

    /// Reads a record in the third pass.
    ///
    /// - Parameter key: the key that the record is about, if any.
    mutating func search(_ record: RecordMoment, of key: AuditDigest?) {
        for log in logs.indices where (logs[log].node ?? record.place.node) == record.place.node {
            nearest[log][.none]?.take(record)
            if let key { nearest[log][.some(key)]?.take(record) }
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
        /// The uses that are in no loss that explains all uses of its time.
        let listed: [AuditTime]

        /// ``listed``, by hour.
        var hours: [(uses: Int, first: AuditTime, last: AuditTime)] {
            Dictionary(grouping: listed) { KeyUseTally.index($0, 3_600_000) }.sorted { $0.key < $1.key }.map {
                ($0.value.count, $0.value[0], $0.value[$0.value.count - 1])
            }
        }
    }

    /// Returns the days on which a log has uses that no record explains, in order of time.
    func unexplainedDays(of log: Int, _ findings: [Finding]) -> [UnexplainedDay] {
        let losses = losses(findings, of: log)
        let whole = [true, false].map { areSeals in
            losses.filter { beyond($0, of: log, areSeals: areSeals) == 0 }
        }
        func day(_ time: AuditTime) -> Int { KeyUseTally.index(time, 86_400_000) }
        return comparisons[log].flatMap { comparison -> [UnexplainedDay] in
            let counted =
                comparison.times.isEmpty
                ? [:]
                : (logs[log].times[comparison.key] ?? []).reduce(into: [Int: Int]()) { $0[day($1), default: 0] += 1 }
            let explaining = whole[auditKeys[comparison.key] == nil ? 1 : 0]
            return Dictionary(grouping: comparison.times, by: day).map { day, times in
                UnexplainedDay(
                    key: comparison.key, day: day, counted: counted[day] ?? 0, times: times,
                    losses: losses.filter { loss in times.contains { Self.isWithin(loss, $0) } },
                    certain: times.filter { time in !losses.contains { Self.isWithin($0, time) } },
                    listed: times.filter { time in !explaining.contains { Self.isWithin($0, time) } })
            }
        }.sorted { ($0.day, $0.key.base64) < ($1.day, $1.key.base64) }
    }

    /// Returns the records nearest to the time of a use without a record.
    func nearest(
        to time: AuditTime, of key: AuditDigest, in log: Int
    ) -> (before: RecordMoment?, after: RecordMoment?) {
        let records = nearest[log][auditKeys[key] == nil ? key : nil]
        return (records?.before(time), records?.after(time))
    }

    /// Returns those of the findings `records_lost` and `clock_set_back` whose records, which are lost or have wrong times,
    /// may explain uses of a log.
    func losses(_ findings: [Finding], of log: Int) -> [Finding] {
        findings.filter { finding in
            (finding.kind == .recordsLost || misdated(by: finding, of: log) != nil)
                && (logs[log].node ?? finding.node) == finding.node
        }
    }

    private func misdated(by finding: Finding, of log: Int) -> (uses: Int, seals: [AuditTime])? {
        guard finding.kind == .clockSetBack, let node = finding.node, let first = finding.first else { return nil }
        return misdated[log][RecordPlace(node, first)]
    }

    /// A seal with its time by a node's clock that was ahead, and by an HSM token's log.
    typealias MisdatedSeal = (clock: AuditTime, log: AuditTime)

    /// Returns the seals of a node that a wrong clock dated, in their order; none if a log has not as many of the node's seals in
    /// no record.
    func misdatedSeals(by finding: Finding) -> [MisdatedSeal] {
        for log in logs.indices {
            guard let dated = misdated(by: finding, of: log)?.seals, !dated.isEmpty else { continue }
            let times = within(finding, of: log, areSeals: true).filter { auditKeys[$0.key] == finding.node }
                .flatMap(\.times).sorted()
            if times.count == dated.count { return zip(dated, times).map { ($0, $1) } }
        }
        return []
    }

    /// Returns true if a lost or misdated record may explain a use of this time.
    private static func isWithin(_ loss: Finding, _ time: AuditTime) -> Bool {
        let since = loss.kind == .clockSetBack ? loss.before : loss.since
        return since.map { $0.milliseconds - UseMatching.earliest <= time.milliseconds } ?? true
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

    /// Returns the number of uses, or of seals, that the records of a loss explain at most.
    func explainable(by loss: Finding, of log: Int, areSeals: Bool) -> Int {
        uses(during: loss, of: log, areSeals: areSeals) - beyond(loss, of: log, areSeals: areSeals)
    }

    /// Returns the number of uses, or of seals, in the time of a loss beyond those that it explains. A lost record is of at
    /// most one use. Of the lost audit checkpoints, each sealed at least one lost record.
    private func beyond(_ loss: Finding, of log: Int, areSeals: Bool) -> Int {
        max(0, -left(in: loss, of: log, areSeals: areSeals))
    }

    /// Returns the number of uses that a loss would explain beyond those in its time.
    func room(in loss: Finding, of log: Int) -> Int { max(0, left(in: loss, of: log, areSeals: false)) }

    private func left(in loss: Finding, of log: Int, areSeals: Bool) -> Int {
        let misdated = misdated(by: loss, of: log).map { areSeals ? $0.seals.count : $0.uses }
        // A lost seal without a use before it has sealed a record that shows none.
        let others = areSeals || misdated != nil ? 0 : lostSeals(of: loss, in: [log]).withoutUse
        return max(0, (misdated ?? loss.count ?? 0) - others) - uses(during: loss, of: log, areSeals: areSeals)
    }

    private func uses(during loss: Finding, of log: Int, areSeals: Bool) -> Int {
        within(loss, of: log, areSeals: areSeals).reduce(0) { $0 + $1.times.count }
    }

    /// Returns the uses, or the seals, in no record that are in the time of a loss.
    func within(
        _ loss: Finding, of log: Int, areSeals: Bool
    ) -> [(key: AuditDigest, times: [AuditTime])] {
        comparisons[log].filter { (auditKeys[$0.key] != nil) == areSeals }.map { comparison in
            (comparison.key, comparison.times.filter { Self.isWithin(loss, $0) })
        }
    }

    /// The operations that a private key of an algorithm can do.
    private static let operations = ["EC": Set(["derive", "sign"]), "RSA": ["decrypt", "unwrap", "sign"]]
    private static let anyOperation = Set(RecordedKeyAttributes.Use.allCases.map(\.rawValue))

    /// The milliseconds by which a log may end before the period's last record, if no record of a use is in that time.
    private static let uncovered: Int64 = 3_600_000

    /// A finding for each key and day with uses that neither the record nor a loss of records explains, for each loss that
    /// explains fewer uses than are in its time, for each log of another HSM token than the record's, for each key with
    /// operations that its type does not do, and for each log that lacks recorded uses or a part of the period.
    ///
    /// - Parameters:
    ///   - last: the time of the export's last record.
    ///   - algorithms: the keys' algorithms by the record, `EC` or `RSA`.
    func findings(
        _ findings: [Finding], _ hsmTokens: HSMTokenRecords, upTo last: AuditTime, algorithms: [AuditDigest: String]
    ) -> [Finding] {
        logs.indices.flatMap { log -> [Finding] in
            let isOther = hsmTokens.hasOtherSerial(logs[log])
            func found(_ kind: Finding.Kind, _ since: AuditTime?, _ until: AuditTime?, _ count: Int) -> Finding {
                var finding = Finding(kind, since ?? logs[log].since)
                (finding.since, finding.until, finding.count) = (finding.time, until ?? logs[log].until, count)
                (finding.node, finding.hsmToken) = (logs[log].node, logs[log].token)
                finding.hasOtherSerial = isOther
                return finding
            }
            func found(_ kind: Finding.Kind, _ key: AuditDigest, _ times: [AuditTime], _ count: Int) -> Finding {
                var finding = found(kind, times.first, times.last, count)
                finding.key = key
                return finding
            }
            let days = unexplainedDays(of: log, findings).filter { !$0.certain.isEmpty }.map { day in
                found(.unrecordedUses, day.key, day.certain, day.certain.count)
            }
            let beyond = losses(findings, of: log).compactMap { loss -> Finding? in
                let kinds = [true, false].filter { self.beyond(loss, of: log, areSeals: $0) > 0 }
                let uses = kinds.flatMap { within(loss, of: log, areSeals: $0) }.filter { !$0.times.isEmpty }
                guard !uses.isEmpty else { return nil }
                let count = kinds.reduce(0) { $0 + self.beyond(loss, of: log, areSeals: $1) }
                var finding = found(
                    .usesBeyondLoss, uses.compactMap(\.times.first).min(), uses.compactMap(\.times.last).max(), count)
                (finding.node, finding.first, finding.last) = (loss.node, loss.first, loss.last)
                finding.keys = Dictionary(uniqueKeysWithValues: uses.map { ($0.key.base64, $0.times.count) })
                return finding
            }
            let lacking = comparisons[log].filter { $0.missing > 0 }.map { comparison in
                found(.uncountedUses, comparison.key, comparison.missingTimes, comparison.missing)
            }
            let foreign = logs[log].operations.compactMap { key, operations -> Finding? in
                let known =
                    auditKeys[key] == nil ? Self.operations[algorithms[key] ?? ""] ?? Self.anyOperation : ["sign"]
                let others = operations.filter { !known.contains($0.key) }
                guard !others.isEmpty else { return nil }
                let times = [others.values.map(\.first).min(), others.values.map(\.last).max()].compactMap(\.self)
                var finding = found(.otherOperation, key, times, others.values.reduce(0) { $0 + $1.count })
                finding.operations = others.mapValues(\.count)
                return finding
            }
            let isShort =
                logs[log].since > period.since || outside[log] > 0
                || logs[log].until.milliseconds + Self.uncovered < min(period.until, last).milliseconds
            var other = Finding(.otherSerial, logs[log].since)
            (other.node, other.hsmToken, other.serial) = (logs[log].node, logs[log].token, logs[log].serial)
            other.recordedSerials = hsmTokens.serials(of: logs[log])
            return (isOther ? [other] : []) + days + beyond + lacking + foreign
                + (isShort ? [found(.shortLog, nil, nil, outside[log])] : [])
        }
    }

    /// - Parameter misdated: the first of the records with wrong times, if this is one of them.
    mutating func take(_ entry: AuditEntry, misdated: RecordPlace?) {
        // Of the keys that were tried with a Google Pay message, the record's own is the one that opened it. The record names
        // the HSM token of that key alone.
        for tried in entry.details["hsm"] == nil ? entry.details["triedKeys"]?.arrayValue ?? [] : [] {
            guard let key = tried.stringValue.flatMap(AuditDigest.init(base64:)), key != entry.publicKeyHash else {
                continue
            }
            add(key, 0, 1, node: entry.node, token: nil, at: entry.time, misdated)
        }
        guard let key = entry.publicKeyHash, let (least, most) = Self.uses(of: entry) else { return }
        add(key, least, most, node: entry.node, token: entry.hsmToken, at: entry.time, misdated)
    }

    /// Counts a checkpoint as one use of the audit key that signed it. The keyId serves as the publicKeyHash, since
    /// both are the same hash of a public key.
    mutating func take(_ checkpoint: Checkpoint, misdated: RecordPlace?) {
        auditKeys[checkpoint.keyId] = checkpoint.node
        add(checkpoint.keyId, 1, 1, node: checkpoint.node, token: nil, at: checkpoint.time, misdated)
    }

    private mutating func add(
        _ key: AuditDigest, _ least: Int, _ most: Int, node: AuditNode, token: String?, at time: AuditTime,
        _ misdated: RecordPlace?
    ) {
        for log in logs.indices where logs[log].isOf(node, token: token) {
            if let misdated {
                let isSeal = auditKeys[key] != nil
                self.misdated[log][misdated, default: (0, [])].uses += isSeal ? 0 : most
                if isSeal { self.misdated[log][misdated]?.seals.append(time) }
                continue
            }
            guard let isSure = logs[log].covers(time) else {
                if least > 0, period.contains(time) { outside[log] += 1 }
                continue
            }
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
