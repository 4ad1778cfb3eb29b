import AuditChain
import StrictJSON

/// A time in which a key's state forbade its use, and the requests with it. A deactivated key opens payment tokens until its
/// cut-off.
struct KeyBlock: Sendable {
    /// The record that brought the key into its state.
    let step: RecordPlace
    let state: String
    let since: AuditTime
    /// The time of the next change of the state; nil if there is none.
    let until: AuditTime?
    /// The last use before.
    private(set) var lastUse: AuditTime?
    private(set) var refused = RequestTally()
    private(set) var callers: [String: Int] = [:]

    init(_ event: KeyHistory.Event, state: String, since: AuditTime, until: AuditTime?) {
        (step, self.state, self.since, self.until) = (event.place, state, since, until)
    }

    mutating func take(_ entry: AuditEntry) {
        if AuditOutcome.used.contains(entry.outcome) {
            if entry.time < since { lastUse = max(lastUse ?? entry.time, entry.time) }
        } else if entry.time >= since, until.map({ entry.time < $0 }) ?? true {
            refused.take(entry)
            callers[entry.callerText ?? "–", default: 0] += 1
        }
    }
}

extension KeyHistory {
    /// The times in which the key's state forbade its use, without empty ones.
    var blocks: [KeyBlock] {
        let changes = events.compactMap { event in
            if case .state(let state) = event.step { (event: event, state: state) } else { nil }
        }
        return changes.enumerated().compactMap { place, change in
            let since = max(change.event.time, change.event.cutOff ?? change.event.time)
            let until = place + 1 < changes.count ? changes[place + 1].event.time : nil
            guard !["active", "pre-activation"].contains(change.state), until.map({ since < $0 }) ?? true else {
                return nil
            }
            return KeyBlock(change.event, state: change.state, since: since, until: until)
        }
    }
}

/// The warnings about a private key's attributes, and the payment tokens that were opened with the key since the first.
struct WarnedKey: Sendable {
    let time: AuditTime
    let hsmToken: String
    let warnings: [JSONValue]
    let records: RecordReferences
    private(set) var opened = 0
    /// The times of those that were opened in ``interval`` before.
    private(set) var before: [AuditTime] = []
    private(set) var lastUse: AuditTime?
    private(set) var callers: [String: Int] = [:]

    /// The time after which daemons read the attributes again, a day in milliseconds.
    static let interval: Int64 = 86_400_000

    init?(_ statements: [(said: HSMTokenRecords.Distinct, warnings: [JSONValue])]) {
        let warned = statements.filter { !$0.warnings.isEmpty }.sorted {
            ($0.said.first.time, $0.said.first.place) < ($1.said.first.time, $1.said.first.place)
        }
        guard let first = warned.first?.said else { return nil }
        (time, hsmToken) = (first.first.time, first.hsmToken)
        warnings = warned.flatMap(\.warnings).reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
        records = warned.reduce(into: RecordReferences()) { $0.add($1.said.records) }
    }

    mutating func take(_ entry: AuditEntry) {
        guard entry.event == AuditEvent.Name.decrypt.rawValue, AuditOutcome.used.contains(entry.outcome) else { return }
        guard entry.time >= time else {
            if time.milliseconds - entry.time.milliseconds <= Self.interval { before.append(entry.time) }
            return
        }
        opened += 1
        lastUse = max(lastUse ?? entry.time, entry.time)
        callers[entry.callerText ?? "–", default: 0] += 1
    }
}

/// The time from which another key served a key's merchant, and the payment tokens that the key opened afterwards.
struct Succession: Sendable {
    let since: AuditTime
    private(set) var opened = RequestTally()

    fileprivate init(since: AuditTime) { self.since = since }

    mutating func take(_ entry: AuditEntry) {
        let isOpened = entry.event == AuditEvent.Name.decrypt.rawValue && AuditOutcome.used.contains(entry.outcome)
        if isOpened, entry.time > since { opened.take(entry) }
    }
}

extension ReportBuilder {
    /// The keys that have a successor: another key of the merchant and algorithm, which served later.
    func collectSuccessions() -> [AuditDigest: Succession] {
        let served = keys.values.compactMap { key in key.activation.map { (key: key, time: $0.time) } }
        let ofMerchants = Dictionary(grouping: served) { [$0.key.merchant ?? "", $0.key.facts?.algorithm ?? ""] }
        return served.reduce(into: [:]) { found, one in
            let others = ofMerchants[[one.key.merchant ?? "", one.key.facts?.algorithm ?? ""]] ?? []
            let next = others.map(\.time).filter { $0 > one.time }.min()
            found[one.key.key] = one.key.merchant == nil ? nil : next.map { Succession(since: $0) }
        }
    }

    /// A finding for each key that an HSM token described as insecure, or otherwise than the record does.
    var attributeFindings: [Finding] {
        warnedKeys.filter { $0.value.time < period.until }.map { key, warned in
            var finding = Finding(.keyAttributes, warned.time)
            (finding.key, finding.node, finding.hsmToken) = (key, warned.records.onlyNode, warned.hsmToken)
            (finding.until, finding.count) = (warned.lastUse, warned.opened)
            (finding.warnings, finding.records) = (warned.warnings, warned.records)
            (finding.callers, finding.usesBefore) = (warned.callers, warned.before)
            return finding
        }
    }

    /// The findings about keys: compromises, late uses, refused certificates, and keys that should be destroyed.
    var keyFindings: [Finding] {
        sortedKeys.flatMap { key in [compromise(of: key), notDestroyed(key)].compactMap(\.self) } + lateUses
            + refusedCertificates
    }

    private func compromise(of key: KeyHistory) -> Finding? {
        guard let event = key.first("compromised"), period.contains(event.time) else { return nil }
        let blocks = blocks[key.key] ?? []
        // The suspension or deactivation that directly preceded the compromise blocked the key.
        var (first, since) = (blocks.firstIndex { $0.since >= event.time } ?? blocks.endIndex, event.time)
        while first > 0, blocks[first - 1].until == since {
            first -= 1
            since = blocks[first].since
        }
        var finding = Finding(.keyCompromised, event.time)
        finding.node = event.place.node
        finding.key = key.key
        finding.caller = event.by
        (finding.since, finding.until) = (first < blocks.count ? blocks[first].lastUse : nil, since)
        finding.callers = blocks[first...].reduce(into: [:]) { $0.merge($1.callers, uniquingKeysWith: +) }
        finding.count = finding.callers.values.reduce(0, +)
        finding.records.add(event.place)
        return finding
    }

    private var lateUses: [Finding] {
        let late = sortedUses.filter { $0.use.late.count > 0 }
        return Dictionary(grouping: late, by: \.pair.key).compactMap { key, uses in
            guard let key else { return nil }
            let requests = uses.reduce(into: RequestTally()) { $0.add($1.use.late) }
            var finding = Finding(.usedAfterSuperseded, requests, of: nil)
            finding.key = key
            finding.callers = uses.reduce(into: [:]) { $0[$1.pair.caller ?? "–", default: 0] += $1.use.late.count }
            (finding.superseded, finding.cutOff) = (lateAfter(key), keys[key]?.superseded?.cutOff)
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
            (finding.key, finding.caller, finding.what) = (act.key, act.by, act.digest)
            finding.records.add(act.place)
            return finding
        }
    }
}
