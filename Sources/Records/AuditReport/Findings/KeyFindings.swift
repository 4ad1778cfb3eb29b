import AuditChain
import StrictJSON

/// The uses of a key that was later recorded as compromised.
struct BlockedKey: Sendable, Equatable {
    /// The last use before the key was blocked.
    private(set) var lastUse: AuditTime?
    /// The number of requests that were refused from then on, by caller.
    private(set) var refused: [String: Int] = [:]

    mutating func take(_ entry: AuditEntry, blocked: AuditTime) {
        if !AuditOutcome.used.contains(entry.outcome) {
            if entry.time >= blocked { refused[entry.callerText ?? "–", default: 0] += 1 }
        } else if entry.time < blocked {
            lastUse = max(lastUse ?? entry.time, entry.time)
        }
    }
}

/// The warnings about a private key's attributes, and the payment tokens that were opened with the key since the first.
struct WarnedKey: Sendable {
    let time: AuditTime
    let node: AuditNode
    let hsmToken: String
    let warnings: [JSONValue]
    let records: RecordReferences
    private(set) var opened = 0
    private(set) var lastUse: AuditTime?

    init?(_ statements: [(said: HSMTokenRecords.Distinct, warnings: [JSONValue])]) {
        let warned = statements.filter { !$0.warnings.isEmpty }.sorted {
            ($0.said.first.time, $0.said.first.place) < ($1.said.first.time, $1.said.first.place)
        }
        guard let first = warned.first?.said else { return nil }
        (time, node, hsmToken) = (first.first.time, first.first.place.node, first.hsmToken)
        warnings = warned.flatMap(\.warnings).reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
        records = warned.reduce(into: RecordReferences()) { $0.add($1.said.records) }
    }

    mutating func take(_ entry: AuditEntry) {
        guard entry.time >= time, entry.event == AuditEvent.Name.decrypt.rawValue,
            AuditOutcome.used.contains(entry.outcome)
        else { return }
        opened += 1
        lastUse = max(lastUse ?? entry.time, entry.time)
    }
}

extension ReportBuilder {
    /// A finding for each key that an HSM token described as insecure, or otherwise than the record does.
    var attributeFindings: [Finding] {
        warnedKeys.filter { $0.value.time < period.until }.map { key, warned in
            var finding = Finding(.keyAttributes, warned.time)
            (finding.key, finding.node, finding.hsmToken) = (key, warned.node, warned.hsmToken)
            (finding.until, finding.count) = (warned.lastUse, warned.opened)
            (finding.warnings, finding.records) = (warned.warnings, warned.records)
            return finding
        }
    }

    /// The findings about keys: compromises, late uses, refused certificates, and keys that should be destroyed.
    var keyFindings: [Finding] {
        sortedKeys.flatMap { key in [compromise(of: key), notDestroyed(key)].compactMap(\.self) } + lateUses
            + refusedCertificates
    }

    /// Returns the time from which the key was blocked before it was recorded as compromised: that of the suspension
    /// or deactivation that preceded it, otherwise that of the compromise. Nil if the key was not compromised.
    func blockedAt(_ key: AuditDigest) -> AuditTime? {
        guard let history = keys[key], let compromised = history.first("compromised") else { return nil }
        var blocked: AuditTime?
        for event in history.events {
            guard case .state(let state) = event.step else { continue }
            if state == "active" { blocked = nil } else { blocked = blocked ?? event.time }
            if event == compromised { break }
        }
        return blocked ?? compromised.time
    }

    private func compromise(of key: KeyHistory) -> Finding? {
        guard let event = key.first("compromised"), period.contains(event.time) else { return nil }
        let blocked = blockedKeys[key.key]
        var finding = Finding(.keyCompromised, event.time)
        finding.node = event.place.node
        finding.key = key.key
        finding.caller = event.by
        (finding.since, finding.until) = (blocked?.lastUse, blockedAt(key.key))
        finding.callers = blocked?.refused ?? [:]
        finding.count = finding.callers.values.reduce(0, +)
        finding.records.add(event.place)
        return finding
    }

    private var lateUses: [Finding] {
        let late = uses.uses.filter { !$0.value.afterSuperseded.isEmpty }.sorted {
            ($0.key.caller ?? "") < ($1.key.caller ?? "")
        }
        return Dictionary(grouping: late, by: \.key.key).compactMap { key, uses in
            guard let key, let since = uses.compactMap(\.value.firstAfterSuperseded).min() else { return nil }
            var finding = Finding(.usedAfterSuperseded, since)
            finding.key = key
            for (_, use) in uses { finding.records.add(use.afterSuperseded) }
            finding.since = since
            finding.until = uses.compactMap(\.value.lastAfterSuperseded).max()
            finding.count = finding.records.count
            finding.cutOff = keys[key]?.superseded?.cutOff
            return finding
        }
    }

    private func notDestroyed(_ key: KeyHistory) -> Finding? {
        guard ["compromised", "deactivated"].contains(key.state), let last = key.lastState else { return nil }
        var finding = Finding(.keyNotDestroyed, last.time)
        finding.key = key.key
        finding.records.add(last.place)
        return finding
    }

    private var refusedCertificates: [Finding] {
        acts.acts.filter { act in
            act.event == AuditEvent.Name.certificateImport.rawValue && act.outcome != AuditOutcome.ok.text
                && act.key.flatMap { keys[$0] }?.events.contains { $0.step == .certificate && $0.time > act.time }
                    != true
        }.map { act in
            var finding = Finding(.certificateRefused, act.time)
            finding.node = act.place.node
            (finding.key, finding.caller) = (act.key, act.by)
            finding.records.add(act.place)
            return finding
        }
    }
}
