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

    var keys: [JSONValue] {
        let summaries = summaries
        return builder.sortedKeys.map { facts($0, summaries[$0.key.base64]) }
    }

    var states: [JSONValue] {
        Dictionary(grouping: builder.keys.values, by: \.state).sorted { $0.key < $1.key }.map {
            .facts(["state": $0.key, "count": $0.value.count])
        }
    }

    private func facts(_ key: KeyHistory, _ summary: KeySummary?) -> JSONValue {
        let daysLeft = summary?.daysLeft ?? 0
        return .facts([
            "key": key.key, "merchant": key.merchant ?? summary?.merchantIdentifier,
            "use": summary?.use ?? use(of: key.key), "algorithm": summary?.algorithm, "state": key.state,
            "came": key.arrival?.step.name, "cameAt": key.arrival?.time, "arrival": key.arrival?.place,
            "activation": key.activation?.place, "superseded": key.superseded?.place,
            "compromised": key.first("compromised")?.place, "destroyed": key.first("destroyed")?.place,
            "service": service(of: key), "certificateEnd": summary?.notAfter.map { AuditTime($0) },
            "daysLeft": summary?.daysLeft == nil || daysLeft < 0 ? nil : daysLeft,
            "daysAgo": daysLeft < 0 ? -daysLeft : nil, "tokens": summary?.tokens,
            "life": Self.shown(key).map { event in
                .facts([
                    "key": key.key, "step": event.step.name, "state": event.step.state, "time": event.time,
                    "by": event.by,
                    "approval": builder.acts.sentence(ofApproval: event.approval, at: event.time),
                    "reason": event.reason, "record": event.place,
                ])
            } as [JSONValue],
            "omitted": key.omitted.ifAny,
        ])
    }

    /// Returns the events to show: all steps, and the first statement of the key's state if the export does not contain
    /// the key's arrival.
    private static func shown(_ key: KeyHistory) -> [KeyHistory.Event] {
        key.events.filter { event in !event.isStatement || key.arrival == nil && event == key.statement }
    }

    /// Returns the key's use (`identity` or `processing`) as its recorded operations show it. It is needed only without
    /// the daemon's state, which lists the use.
    private func use(of key: AuditDigest) -> String? {
        let uses = builder.uses.uses.filter { $0.key.key == key }.values
        if uses.contains(where: { !$0.signed.isEmpty }) { return "identity" }
        return uses.contains { !$0.released.isEmpty || !$0.repeated.isEmpty } ? "processing" : nil
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

    // MARK: Attributes

    /// The private keys' attributes, as the HSM tokens report them, with a warning for each that is insecure or differs
    /// from the record. Rows with warnings come first, then HSM tokens that did not answer, then all others.
    func attributes(_ live: LiveState) -> JSONValue {
        var rows: [(order: Int, facts: JSONValue)] = []
        for key in live.keys {
            let arrival = AuditDigest(base64: key.publicKeyHash).flatMap { builder.keys[$0] }?.arrival?.step
            for attributes in key.attributes ?? [] {
                let (values, warnings) = (attributes.values, Self.warnings(attributes, key, arrival: arrival))
                let facts = JSONValue.facts([
                    "key": key.publicKeyHash, "token": attributes.token, "away": values == nil,
                    "strength": values?.strength, "sensitive": values?.sensitive, "extractable": values?.extractable,
                    "alwaysSensitive": values?.alwaysSensitive, "neverExtractable": values?.neverExtractable,
                    "local": values?.local, "came": arrival?.name, "warnings": warnings, "message": attributes.message,
                ])
                rows.append((warnings.isEmpty ? values == nil ? 1 : 2 : 0, facts))
            }
        }
        let unread = live.keys.filter { $0.attributes == nil }
        let warned = rows.count { $0.order == 0 }
        return .facts([
            "warned": warned.ifAny, "described": rows.count { $0.order != 1 },
            "rows": (0...2).flatMap { order in rows.filter { $0.order == order }.map(\.facts) },
            "unreadCount": unread.count.ifAny,
            "unread": unread.map { key in
                .facts([
                    "key": key.publicKeyHash,
                    "why": live.attributeFaults[key.publicKeyHash] ?? "The daemon's version does not read them.",
                ])
            } as [JSONValue],
        ])
    }

    /// Returns a sentence for each shortcoming of the key's attributes, and for each difference from the record or the
    /// ledger.
    ///
    /// - Parameter arrival: the key's arrival according to the record; nil if the export does not contain it.
    static func warnings(_ attributes: KeyAttributes, _ key: KeySummary, arrival: KeyHistory.Step?) -> [String] {
        guard let values = attributes.values else { return [] }
        var warnings = values.shortcomings
        // Without any reported attribute, there is nothing to compare with the record.
        guard values != KeyAttributes.Values(shortcomings: values.shortcomings) else { return warnings }
        switch arrival {
        case .generated where values.local != true:
            warnings.append(
                "Made in a token by the record; this token does not say that it made it (CKA_LOCAL). Some tokens never say so."
            )
            for (name, value) in [
                ("CKA_ALWAYS_SENSITIVE", values.alwaysSensitive), ("CKA_NEVER_EXTRACTABLE", values.neverExtractable),
            ] where value != true {
                warnings.append("Made in a token by the record; \(name) is \(value == false ? "false" : "not told").")
            }
        case .imported where values.local == true:
            warnings.append("Came from a file by the record; the token says that it made it (CKA_LOCAL).")
        default: break
        }
        let expected = key.algorithm == "EC" ? "P-256" : "RSA-2048"
        if let strength = values.strength, strength != expected {
            warnings.append("\(expected) by the ledger, \(strength) by the token.")
        }
        return warnings
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
