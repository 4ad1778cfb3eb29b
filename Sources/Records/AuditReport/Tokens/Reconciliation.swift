public import AuditChain

/// The HSM tokens' counts of their keys' uses, compared with the record.
///
/// Some records show that an HSM token used a key. Others show only that it may have, since a call that ended without
/// an answer may have been executed. The record therefore gives a minimum and a maximum. Uses beyond the maximum did
/// not pass through this program.
public struct Reconciliation: Sendable {
    /// The minimum and maximum number of uses of one key.
    public struct Uses: Sendable, Equatable {
        public var least = 0
        public var most = 0
    }

    public let logs: [TokenUseLog]
    /// The minimum and maximum number of uses according to the record: for each log, a dictionary by key.
    public private(set) var recorded: [[AuditDigest: Uses]]
    /// The maximum number of uses by day and by hour, for each log and key. Both are counted from 1970-01-01.
    private var days: [[AuditDigest: [Int: Int]]]
    private var hours: [[AuditDigest: [Int: Int]]]
    /// The hours of each log that have more uses of a key than the record's maximum, as the third pass reads them.
    private(set) var unexplainedHours: [UnexplainedHours]
    /// The nodes whose audit checkpoints each audit key signed last.
    private(set) var auditKeys: [AuditDigest: AuditNode] = [:]

    init(_ logs: [TokenUseLog]) {
        self.logs = logs
        recorded = Array(repeating: [:], count: logs.count)
        days = recorded.map { _ in [:] }
        hours = days
        unexplainedHours = logs.map { UnexplainedHours([], in: $0) }
    }

    /// The uses of one key, as the HSM token counted them and as the record shows them.
    public struct Comparison: Sendable, Equatable {
        public let key: AuditDigest
        public let counted: Int
        public let recorded: Uses
        /// The sum, over the days of a log, of the counted uses beyond the record's maximum for that day.
        public var beyondDays = 0
        /// The number of counted uses that the record cannot explain. The days of a log show more of them than its sum,
        /// in which a possible use of one day makes up for a surplus of another.
        public var unexplained: Int { max(beyondDays, counted - recorded.most) }
        /// The number by which the HSM token's count falls short of the record's minimum.
        public var missing: Int { max(0, recorded.least - counted) }
    }

    /// Compares the counts of every key in the log or in the records that the log covers. Keys with the greatest
    /// differences come first.
    public func comparisons(of log: Int) -> [Comparison] {
        let keys = Set(logs[log].uses.keys).union(recorded[log].keys)
        let beyond = Dictionary(grouping: unexplainedDays(of: log), by: \.key).mapValues { days in
            days.reduce(0) { $0 + $1.unexplained }
        }
        return keys.map { key in
            Comparison(
                key: key, counted: logs[log].uses[key] ?? 0, recorded: recorded[log][key] ?? Uses(),
                beyondDays: beyond[key] ?? 0)
        }.sorted { left, right in
            (right.unexplained, right.missing, left.key.hex) < (left.unexplained, left.missing, right.key.hex)
        }
    }

    /// The sum of ``Comparison/unexplained`` over all keys of all logs.
    public var unexplained: Int {
        logs.indices.reduce(0) { $0 + comparisons(of: $1).reduce(0) { $0 + $1.unexplained } }
    }

    /// The uses of a key on one day, of which the HSM token counted more than the record's maximum. The day is counted
    /// from 1970-01-01.
    struct UnexplainedDay: Sendable, Equatable {
        let key: AuditDigest
        let day: Int
        let counted: Int
        let most: Int

        var unexplained: Int { counted - most }

        /// Returns true if the day is one of those between the copy and the start of a restored ledger.
        func isWithin(_ loss: Finding) -> Bool {
            loss.since.map { KeyUseTally.index($0, 86_400_000) <= day } ?? true
                && loss.until.map { KeyUseTally.index($0, 86_400_000) >= day } ?? true
        }
    }

    /// Returns those of the findings `records_lost` whose records may explain uses of a log.
    func losses(_ findings: [Finding], of log: Int) -> [Finding] {
        findings.filter { $0.kind == .recordsLost && (logs[log].node ?? $0.node) == $0.node }
    }

    /// The uses that are in no record, and those of them that lost records may explain. Both contain seals: uses of an
    /// audit key, whose audit checkpoints are never records of uses.
    struct Explained: Sendable, Equatable {
        var unexplained = 0
        var seals = 0
        var explainable = 0
        var explainableSeals = 0
        var certain: Int { unexplained - explainable }

        mutating func add(_ other: Explained) {
            unexplained += other.unexplained
            seals += other.seals
            explainable += other.explainable
            explainableSeals += other.explainableSeals
        }
    }

    func explained(by findings: [Finding]) -> Explained {
        logs.indices.reduce(into: Explained()) { $0.add(explained(by: findings, of: $1)) }
    }

    func explained(by findings: [Finding], of log: Int) -> Explained {
        let (comparisons, losses) = (comparisons(of: log), losses(findings, of: log))
        var found = Explained()
        found.unexplained = comparisons.reduce(0) { $0 + $1.unexplained }
        found.seals = comparisons.filter { auditKeys[$0.key] != nil }.reduce(0) { $0 + $1.unexplained }
        found.explainableSeals = min(explainable(by: losses, of: log, areSeals: true), found.seals)
        let others = min(explainable(by: losses, of: log, areSeals: false), found.unexplained - found.seals)
        found.explainable = found.explainableSeals + others
        return found
    }

    /// A finding for each key and day with uses that neither the record nor a loss of records explains, and one for each
    /// log of another HSM token than the record's.
    func findings(_ findings: [Finding], _ hsmTokens: HSMTokenRecords) -> [Finding] {
        logs.indices.flatMap { log -> [Finding] in
            let losses = losses(findings, of: log)
            let isOther = hsmTokens.hasOtherSerial(logs[log])
            var other = Finding(.otherSerial, logs[log].since)
            (other.node, other.hsmToken, other.serial) = (logs[log].node, logs[log].token, logs[log].serial)
            other.recordedSerials = hsmTokens.serials(of: logs[log])
            return (isOther ? [other] : [])
                + unexplainedDays(of: log).filter { day in !losses.contains(where: day.isWithin) }.map { day in
                    var finding = Finding(.unrecordedUses, AuditTime(milliseconds: Int64(day.day) * 86_400_000))
                    (finding.node, finding.hsmToken) = (logs[log].node, logs[log].token)
                    (finding.key, finding.count, finding.hasOtherSerial) = (day.key, day.unexplained, isOther)
                    return finding
                }
        }
    }

    /// Returns the days on which a log contains more uses of a key than the record's maximum, in order of time.
    func unexplainedDays(of log: Int) -> [UnexplainedDay] {
        logs[log].hours.flatMap { key, hours in
            Dictionary(grouping: hours, by: { Self.day(ofHour: $0.key) }).compactMap { day, hours -> UnexplainedDay? in
                let (counted, most) = (hours.reduce(0) { $0 + $1.value.count }, days[log][key]?[day] ?? 0)
                return counted > most ? UnexplainedDay(key: key, day: day, counted: counted, most: most) : nil
            }
        }.sorted { ($0.day, $0.key.base64) < ($1.day, $1.key.base64) }
    }

    static func day(ofHour hour: Int) -> Int { (hour - (hour % 24 + 24) % 24) / 24 }

    /// Prepares the third pass: the hours of the days of the finding ``Finding/Kind/unrecordedUses`` in which a log has
    /// more uses of a key than the record's maximum for that hour. A use that a possible use of another hour may explain
    /// is among them.
    ///
    /// - Returns: true if there are any.
    mutating func beginThirdPass(_ findings: [Finding]) -> Bool {
        unexplainedHours = logs.indices.map { log in
            let losses = losses(findings, of: log)
            let days = unexplainedDays(of: log).filter { day in !losses.contains(where: day.isWithin) }
            let found = days.flatMap { day in
                (logs[log].hours[day.key] ?? [:]).filter { hour, uses in
                    Self.day(ofHour: hour) == day.day && uses.count > hours[log][day.key]?[hour] ?? 0
                }.map { (key: day.key, hour: $0.key, most: hours[log][day.key]?[$0.key] ?? 0) }
            }
            return UnexplainedHours(found, in: logs[log])
        }
        return unexplainedHours.contains { !$0.isEmpty }
    }

    /// Reads a record in the third pass.
    mutating func search(_ line: [UInt8], of record: RecordMoment) {
        for log in unexplainedHours.indices { unexplainedHours[log].take(line, of: record) }
    }

    /// Reads a checkpoint in the third pass.
    mutating func search(_ checkpoint: Checkpoint) {
        for log in unexplainedHours.indices
        where logs[log].covers(node: checkpoint.node, token: nil, at: checkpoint.time) != nil {
            unexplainedHours[log].explain(checkpoint.keyId, at: checkpoint.time)
        }
    }

    /// Returns the times of a node's seals during a loss of its records, according to the HSM tokens' logs of its audit
    /// keys. The export has no checkpoint of that time.
    func seals(during loss: Finding) -> [AuditTime] {
        guard let node = loss.node, let since = loss.lastSeal ?? loss.since, let until = loss.until else { return [] }
        return logs.filter { ($0.node ?? node) == node }.flatMap { log in
            auditKeys.filter { $0.value == node }.flatMap { log.hours[$0.key]?.values.flatMap(\.self) ?? [] }
        }.filter { $0.milliseconds > since.milliseconds + TokenUseLog.margin && $0 < until }.sorted()
    }

    /// Returns the number of unexplained seals, or of other unexplained uses, that lost records may explain: those on
    /// the days of a loss, but at most the number of lost records.
    ///
    /// - Parameter losses: those that ``losses(_:of:)`` returns.
    private func explainable(by losses: [Finding], of log: Int, areSeals: Bool) -> Int {
        let days = unexplainedDays(of: log).filter { (auditKeys[$0.key] != nil) == areSeals }
        // A lost record is of at most one use. Of the lost audit checkpoints, each sealed at least one lost record.
        return losses.reduce(0) { sum, loss in
            sum + min(days.filter { $0.isWithin(loss) }.reduce(0) { $0 + $1.unexplained }, loss.count ?? 0)
        }
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
            recorded[log][key, default: Uses()].least += isSure ? least : 0
            recorded[log][key, default: Uses()].most += most
            // Clocks differ, so a use near midnight may be in the log on the other day, and so for hours.
            let near = [-1, 1].map { AuditTime(milliseconds: time.milliseconds + $0 * TokenUseLog.margin) }
            for day in Set(near.map { KeyUseTally.index($0, 86_400_000) }) {
                days[log][key, default: [:]][day, default: 0] += most
            }
            for hour in Set(near.map { KeyUseTally.index($0, 3_600_000) }) {
                hours[log][key, default: [:]][hour, default: 0] += most
            }
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
