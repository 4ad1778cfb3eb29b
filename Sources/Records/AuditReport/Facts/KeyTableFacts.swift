import AuditChain
import DaemonAPI
import Foundation
import StrictJSON

/// The part *Inventory of keys*: each key's properties, origin and life.
struct KeyTableFacts {
    let builder: ReportBuilder
    let live: LiveState?
    let others: [OtherLedger]

    private var summaries: [String: KeySummary] {
        Dictionary((live?.keys ?? []).map { ($0.publicKeyHash, $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// The keys in the order in which they entered the ledger, and after them those that only HSM tokens describe.
    func keys(_ figures: Figures) -> [JSONValue] {
        let uses = Dictionary(grouping: builder.uses.uses, by: \.key.key).mapValues { $0.map(\.value) }
        let hsmTokens = HSMTokenFacts(builder: builder)
        let others = builder.hsmTokens.keys.keys.filter { builder.keys[$0] == nil }
        return builder.sortedKeys.map { facts($0, uses[$0.key] ?? [], hsmTokens.attributes(of: $0.key), figures) }
            + others.sorted { $0.base64 < $1.base64 }.map {
                .facts(["key": $0, "attributes": hsmTokens.attributes(of: $0)])
            }
    }

    var states: [JSONValue] {
        Dictionary(grouping: builder.keys.values, by: \.state).sorted { $0.key < $1.key }.map {
            .facts(["state": $0.key, "count": $0.value.count])
        }
    }

    private func facts(
        _ key: KeyHistory, _ uses: [KeyUseTally.Use], _ attributes: [JSONValue], _ figures: Figures
    ) -> JSONValue {
        let removed = key.events.filter { $0.step == .objectsDestroyed }.map(\.place.node)
        let refused = uses.reduce(into: [String: Int]()) { sums, use in
            sums.merge(use.refused.mapValues(\.count), uniquingKeysWith: +)
        }
        return .facts([
            "key": key.key, "merchant": key.merchant, "use": Self.use(of: key, uses), "algorithm": key.facts?.algorithm,
            "bits": key.facts?.bits, "state": key.state, "came": key.came, "cameAt": key.arrival?.time,
            "destroyedOn": key.first("destroyed")?.place.node,
            "removedOn": removed.isEmpty ? nil : Set(removed).sorted(),
            "service": service(of: key), "certificateEnd": key.certificate?.end, "issuer": key.certificate?.issuer,
            "certificateSha256": key.certificate?.digest,
            "life": Self.shown(key).map { event in
                .facts([
                    "key": key.key, "step": event.step.name, "state": event.step.state, "time": event.time,
                    "by": event.by,
                    "approval": builder.acts.sentence(ofApproval: event.approval, at: event.time),
                    "reason": event.reason, "cutOff": event.cutOff, "record": event.place,
                    "block": block(event.place, of: key.key, figures),
                ])
            } as [JSONValue],
            "successor": builder.successions[key.key].map { succession in
                let which = "decrypt, ok or repeat, key \(key.key.base64), after its successor served"
                return JSONValue.facts([
                    "since": succession.since, "opened": succession.opened.facts(figures, which),
                ])
            },
            "omitted": key.omitted.ifAny,
            "opened": uses.reduce(0) { $0 + $1.released.count }, "again": uses.reduce(0) { $0 + $1.repeated.count },
            "signed": uses.reduce(0) { $0 + $1.signed.count },
            "refused": UseFacts.codes(refused),
            "firstUse": uses.compactMap(\.firstUse).min(), "lastUse": uses.compactMap(\.lastUse).max(),
            "attributes": attributes,
        ])
    }

    /// Returns the last use before a step forbade the key's use, and the requests that were refused up to the next step.
    private func block(_ step: RecordPlace, of key: AuditDigest, _ figures: Figures) -> JSONValue? {
        builder.blocks[key]?.first { $0.step == step }.map { block in
            .facts([
                "since": block.since, "lastUse": block.lastUse,
                "refused": block.refused.facts(figures, "refused, key \(key.base64), while \(block.state)"),
            ])
        }
    }

    /// Returns the events to show: all steps, and the first statement of the key's state if the export does not contain
    /// the key's arrival.
    private static func shown(_ key: KeyHistory) -> [KeyHistory.Event] {
        key.events.filter { event in !event.isStatement || key.arrival == nil && event == key.statement }
    }

    /// Returns the key's use (`identity`, `processing` or `google-pay`) as its recorded operations show it.
    private static func use(of key: KeyHistory, _ uses: [KeyUseTally.Use]) -> String? {
        if uses.contains(where: { !$0.signed.isEmpty }) { return "identity" }
        guard uses.contains(where: { !$0.released.isEmpty || !$0.repeated.isEmpty }) else { return nil }
        return key.isGooglePay ? "google-pay" : "processing"
    }

    /// Returns the time in which the key served. Without `from` it began before the export's records, and without `days`
    /// after the period.
    private func service(of key: KeyHistory) -> JSONValue? {
        let end = ["deactivated", "compromised", "destroyed"].compactMap { key.first($0)?.time }.min()
        guard let start = key.activation?.time else {
            guard let statement = key.statement, statement.step != .stated("pre-activation") else { return nil }
            return .facts(["until": end, "serving": ["active", "suspended"].contains(key.state)])
        }
        let last = end ?? builder.period.until
        let days = last > start ? Int((last.milliseconds - start.milliseconds) / 86_400_000) : nil
        return .facts(["from": start, "until": end, "days": days])
    }

    var keysOfOtherLedgers: [JSONValue] {
        let own = Set(builder.keys.keys.map(\.base64)).union((live?.keys ?? []).map(\.publicKeyHash))
        return others.map { other in
            .facts(["name": other.name, "keys": other.keys.count, "both": own.intersection(other.keys).sorted()])
        }
    }

    /// The keys whose state in the record differs from their state in the daemon's list, or that only one of both has.
    var differences: [JSONValue] {
        let (summaries, known) = (summaries, Set(builder.keys.keys.map(\.base64)))
        let listed = summaries.values.sorted { $0.publicKeyHash < $1.publicKeyHash }
        let changed: [(String, String)] = builder.sortedKeys.compactMap { key in
            guard let now = summaries[key.key.base64] else {
                return key.state == "destroyed"
                    ? nil : (key.key.base64, "\(key.state) by the record, and the daemon does not list it")
            }
            return now.state == key.state
                ? nil : (key.key.base64, "\(key.state) by the record, \(now.state) by the daemon")
        }
        let unknown = listed.filter { !known.contains($0.publicKeyHash) }.map { summary in
            (
                summary.publicKeyHash,
                summary.condition == "external"
                    ? "in a token, and not known to the ledger: it serves no caller"
                    : "\(summary.state) by the daemon, and its arrival is not in this export"
            )
        }
        let remarks = listed.filter { known.contains($0.publicKeyHash) }.compactMap { summary in
            summary.remark.map { (summary.publicKeyHash, $0) }
        }
        return (changed + unknown + remarks).map { .facts(["key": $0.0, "difference": $0.1]) }
    }
}

extension KeyHistory.Step {
    /// The event's name; `state` for a change of the state, and `stated` for a statement of it.
    var name: String {
        switch self {
        case .generated: AuditEvent.Name.keyGenerate.rawValue
        case .imported: AuditEvent.Name.keyImport.rawValue
        case .adopted: AuditEvent.Name.keyAdopt.rawValue
        case .requestMade: AuditEvent.Name.csrCreate.rawValue
        case .certificate: AuditEvent.Name.certificateImport.rawValue
        case .objectsDestroyed: AuditEvent.Name.keyObjectsDestroy.rawValue
        case .state: "state"
        case .stated: "stated"
        }
    }

    fileprivate var state: String? {
        switch self {
        case .state(let state), .stated(let state): state
        default: nil
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
    /// The keys, in the order in which they entered the ledger.
    var sortedKeys: [KeyHistory] {
        keys.values.sorted { left, right in
            let (first, second) = (left.firstSeen, right.firstSeen)
            return (first, left.key.base64) < (second, right.key.base64)
        }
    }
}
