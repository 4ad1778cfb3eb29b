import AuditChain
import StrictJSON

/// The figures of the assessor's page in machine-readable form. scripts/verify-audit --report counts each of them again
/// from the export.
///
/// The form is a JSON object. `format` is 2; `since` and `until` are RFC 3339 with milliseconds, and `until` is
/// exclusive. For the records in the period, it has `events` (by event and outcome), `uses` (one for each key and
/// caller: `released`, `repeated`, `signed`, `afterSuperseded`, `refused` by code), `floods` (the sums of `refusals`),
/// `steps` (one for each chart step: its first day, uses, refusals), `approvals` (by their end) and `system`. For all
/// records, it has `nodes` (`first`, `last`, `records`) and `keys` (`arrival`, `activation`, `superseded`,
/// `compromised`, `destroyed`: `[node, sequence]`, and `state`). `programs` has one element for each record that
/// changed the SHA-256 of a program: `node`, `sequence`, `paytokend`, `worker`, `sbom` and `modules` (by HSM token).
/// Keys are their publicKeyHash in Base64. Empty counts are omitted. With logs of HSM tokens, `tokenUses` has one
/// element for each log: `since`, `until`, `node` and `token` if the log names them, and `keys` (`key`, `counted` by
/// the HSM token, `least` and `most` according to the record).
struct ReportTotals {
    let builder: ReportBuilder
    let findings: [Finding]

    var bytes: [UInt8] {
        JSONWriter.object(capacity: 64 * 1024) { json in
            json.member("format", 2)
            json.member("since", builder.period.since.text)
            json.member("until", builder.period.until.text)
            json.member("findings", objects: findings) { $0.write(&$1) }
            json.member("nodes", objects: builder.system.sortedNodes) { node, json in
                json.member("node", node.node.name)
                json.member("first", node.first)
                json.member("last", node.last)
                json.member("records", node.records)
                json.member("inPeriod", node.inPeriod)
            }
            json.member("events") { json in
                let events = Dictionary(grouping: builder.events, by: \.key.event)
                for (event, entries) in events.sorted(by: { $0.key < $1.key }) {
                    json.member(
                        event, Dictionary(uniqueKeysWithValues: entries.map { ($0.key.outcome, $0.value.count) }))
                }
            }
            json.member("uses", objects: builder.sortedUses) { Self.write($0.pair, $0.use, &$1) }
            json.member("floods", builder.uses.floods)
            json.member("refusals", objects: builder.refusals.sortedCallers) { refused, json in
                let worst = refused.caller.worstHour
                json.member("caller", refused.name)
                json.member("count", refused.caller.count)
                json.member("first", refused.caller.first.text)
                json.member("last", refused.caller.last.text)
                json.member("worstHour", worst.hour.text)
                json.member("inWorstHour", worst.count)
            }
            json.member("steps", objects: builder.stepTotals) { step, json in
                json.member("from", step.step.text)
                json.member("uses", step.uses)
                json.member("refusals", step.refusals)
            }
            json.member("keys", objects: builder.sortedKeys, Self.write)
            json.member("approvals", builder.endsOfApprovals)
            json.member("system", system)
            json.member("programs", objects: builder.system.sortedNodes.flatMap(\.programs)) { programs, json in
                json.member("node", programs.place.node.name)
                json.member("sequence", programs.place.sequence)
                json.member("paytokend", programs.daemon)
                json.member("worker", programs.worker)
                json.member("sbom", programs.sbom)
                json.member("modules") { json in
                    for (hsmToken, digest) in programs.modules.sorted(by: { $0.key < $1.key }) {
                        json.member(hsmToken, digest)
                    }
                }
            }
            if !builder.reconciliation.logs.isEmpty {
                json.member("tokenUses", objects: builder.reconciliation.logs.enumerated()) {
                    write($0.element, $0.offset, &$1)
                }
            }
        }
    }

    private static func write(_ pair: KeyUseTally.Pair, _ use: KeyUseTally.Use, _ json: inout JSONWriter) {
        json.member("key", pair.key?.base64)
        json.member("caller", pair.caller)
        for (name, count) in [
            ("released", use.released.count), ("repeated", use.repeated.count), ("signed", use.signed.count),
            ("afterSuperseded", use.afterSuperseded.count),
        ] where count > 0 {
            json.member(name, count)
        }
        if !use.refused.isEmpty { json.member("refused", use.refused.mapValues(\.count)) }
    }

    private static func write(_ key: KeyHistory, _ json: inout JSONWriter) {
        json.member("key", key.key.base64)
        json.member("state", key.state)
        for (name, event) in [
            ("arrival", key.arrival), ("activation", key.activation), ("superseded", key.superseded),
            ("compromised", key.first("compromised")), ("destroyed", key.first("destroyed")),
        ] {
            guard let place = event?.place else { continue }
            json.member(name)
            json.value(.array([.string(place.node.name), .number(JSONNumber(place.sequence))]))
        }
    }

    private func write(_ log: TokenUseLog, _ place: Int, _ json: inout JSONWriter) {
        json.member("since", log.since.text)
        json.member("until", log.until.text)
        json.member("node", log.node?.name)
        json.member("token", log.token)
        let comparisons = builder.reconciliation.comparisons(of: place).sorted { $0.key.hex < $1.key.hex }
        json.member("keys", objects: comparisons) { comparison, json in
            json.member("key", comparison.key.base64)
            json.member("counted", comparison.counted)
            json.member("least", comparison.recorded.least)
            json.member("most", comparison.recorded.most)
        }
        json.member("days", objects: builder.reconciliation.unexplainedDays(of: place)) { day, json in
            json.member("day", ReportStep.text(ofDay: day.day))
            json.member("key", day.key.base64)
            json.member("counted", day.counted)
            json.member("most", day.most)
        }
    }

    private var system: [String: Int] {
        let (system, nodes) = (builder.system, builder.system.nodes.values)
        func sum(_ references: KeyPath<SystemHistory.Node, RecordReferences>) -> Int {
            nodes.reduce(0) { $0 + $1[keyPath: references].count }
        }
        return [
            "starts": sum(\.starts), "stops": sum(\.stops), "restores": system.restores.count,
            "acceptedClocks": system.acceptedClocks.count, "pruned": system.prunedCount,
        ]
    }
}

extension JSONWriter {
    /// Writes an object of the counts, sorted by their names. Counts of zero are omitted.
    fileprivate mutating func member(_ name: String, _ counts: [String: Int]) {
        member(name) { json in
            for (name, count) in counts.sorted(by: { $0.key < $1.key }) where count != 0 { json.member(name, count) }
        }
    }
}

extension KeyHistory {
    /// The time by which keys are sorted: that of the first step. Keys whose history begins with a statement come
    /// first, since they arrived before the export's first record.
    fileprivate var firstSeen: AuditTime {
        guard let first = events.first else { return .latest }
        return first.isStatement ? .earliest : first.time
    }
}

extension ReportBuilder {
    /// The uses, sorted by key and caller.
    var sortedUses: [(pair: KeyUseTally.Pair, use: KeyUseTally.Use)] {
        uses.uses.map { ($0.key, $0.value) }.sorted { left, right in
            (left.0.key?.base64 ?? "", left.0.caller ?? "") < (right.0.key?.base64 ?? "", right.0.caller ?? "")
        }
    }

    /// The keys, in the order in which they entered the ledger.
    var sortedKeys: [KeyHistory] {
        keys.values.sorted { left, right in
            let (first, second) = (left.firstSeen, right.firstSeen)
            return (first, left.key.base64) < (second, right.key.base64)
        }
    }

    /// The number of approvals requested in the period, by their last decision, or `open`.
    var endsOfApprovals: [String: Int] {
        acts.approvals.values.reduce(into: [:]) { ends, approval in
            if let request = approval.request, period.contains(request.time) { ends[approval.end, default: 0] += 1 }
        }
    }

    var stepTotals: [(step: ReportStep, uses: Int, refusals: Int)] {
        period.steps.map { step in
            (step, Self.sum(uses.daysOfCallers.values, step), Self.sum([uses.daysOfRefusals], step))
        }
    }

    /// Returns the sum of the counts on the days of a step.
    static func sum(_ days: some Collection<[Int: Int]>, _ step: ReportStep) -> Int {
        let range = KeyUseTally.index(step.start, 86_400_000)..<KeyUseTally.index(step.end, 86_400_000)
        return days.reduce(0) { sum, days in
            sum + range.reduce(0) { $0 + (days[$1] ?? 0) }
        }
    }
}
