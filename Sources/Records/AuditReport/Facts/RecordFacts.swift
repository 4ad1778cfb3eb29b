import AuditChain
import StrictJSON

/// The parts *Verdict*, *Findings* and *The record*.
struct RecordFacts {
    let builder: ReportBuilder
    let findings: [Finding]
    let export: VerifiedExport

    var verdict: JSONValue {
        let losses = findings.filter { $0.lostRecords > 0 }
        let summary = JSONValue.facts([
            "count": losses.count, "one": losses.count == 1, "records": losses.reduce(0) { $0 + $1.lostRecords },
            "isLeast": losses.contains { $0.kind == .recordsLost },
        ])
        let reconciliation = builder.reconciliation
        let explained = reconciliation.explained(by: findings)
        return .facts([
            "proved": export.isProved, "records": builder.system.nodes.values.reduce(0) { $0 + $1.inPeriod },
            "losses": losses.isEmpty ? nil : summary,
            "unexplained": explained.unexplained.ifAny,
            "explainable": explained.unexplained > 0 ? explained.explainable : nil,
            "certain": explained.unexplained > 0 ? explained.certain : nil,
            "seals": explained.seals.ifAny, "explainableSeals": explained.explainableSeals.ifAny,
            "otherSerial": reconciliation.logs.contains(where: builder.hsmTokens.hasOtherSerial) ? true : nil,
            "uncounted": findings.reduce(0) { $0 + ($1.kind == .uncountedUses ? $1.count ?? 0 : 0) }.ifAny,
            "shortLogs": findings.count { $0.kind == .shortLog }.ifAny,
            "early": findings.count { $0.kind == .sealsApart && $0.count == nil }.ifAny,
            "fault": export.verdict.fault?.description,
            "filtered": export.verdict.filteredRecords, "unreadable": builder.unreadable.ifAny,
            "faulty": export.verdict.nodes.filter { !$0.isIntact }.map(\.description),
        ])
    }

    func findings(_ figures: Figures) -> [JSONValue] {
        findings.map { finding in
            .facts([
                "kind": finding.kind.rawValue, "time": finding.time, "node": finding.node, "key": finding.key,
                "caller": finding.caller, "token": finding.hsmToken, "since": finding.since, "until": finding.until,
                "length": length(of: finding),
                "count": finding.count, "one": finding.count == 1 ? true : nil,
                "first": finding.first, "last": finding.last, "before": finding.before, "ahead": finding.ahead,
                "forward": forward(of: finding).map { $0.since.length(to: $0.until, roundedUp: true) },
                "refused": finding.refused, "refusedBefore": finding.refusedBefore,
                "refusedUntil": finding.refusedBack?.upperBound, "nextUse": finding.nextUse,
                "nextSeal": finding.nextSeal,
                "sealed": finding.kind == .recordsLost ? nil : finding.lastSeal, "what": finding.what,
                "previous": finding.previous, "superseded": finding.superseded,
                "least": finding.kind == .manyRefusals ? RefusalsByCaller.refusalsOfHour : nil,
                "payments": finding.payments, "unopened": finding.unopened.ifAny,
                "openers": finding.openers.isEmpty ? nil : openers(finding, figures), "usual": finding.usual,
                "isUnusual": finding.isUnusual ? true : nil,
                "cutOff": finding.cutOff, "warnings": finding.warnings.isEmpty ? nil : finding.warnings,
                "serial": finding.serial,
                "recordedSerials": finding.recordedSerials.isEmpty ? nil : finding.recordedSerials,
                "otherSerial": finding.hasOtherSerial ? true : nil,
                "callers": finding.callers.isEmpty ? nil : UseFacts.most(finding.callers),
                "operations": finding.operations.isEmpty ? nil : UseFacts.operations(finding.operations),
                "unrecorded": firstUnrecorded(finding),
                "warned": finding.kind == .unrecordedUses
                    ? findings.first { $0.kind == .keyAttributes && $0.key == finding.key }?.time : nil,
                "loss": finding.lostRecords > 0 ? true : nil,
                "state": finding.kind == .keyNotDestroyed ? finding.key.flatMap { builder.keys[$0]?.state } : nil,
                "heads": finding.kind == .recordsLost ? heads(finding) : nil,
                "signed": signed(during: finding),
                "dayBefore": finding.kind == .keyAttributes ? finding.usesBefore.count : nil,
                "sinceUnrecorded": sinceUnrecorded(finding),
                "codes": finding.codes.isEmpty ? nil : UseFacts.codes(finding.codes),
                "keys": finding.keys.isEmpty ? nil : facts(ofKeys: finding.keys),
                "nodes": [.keyAttributes, .busyHour, .unusualHour].contains(finding.kind) && finding.node == nil
                    ? finding.records.parts.map(\.node).sorted() : nil,
                "records": finding.records.isEmpty
                    ? nil : figures.figure(finding.records, "finding \(finding.kind.rawValue)"),
            ])
        }
    }

    /// The time from the first to the last moment of a finding; nil if it is less than a second.
    func length(of finding: Finding) -> String? {
        let length = finding.since.flatMap { since in end(of: finding).map { since.length(to: $0) } }
        return length == "0 s" ? nil : length
    }

    /// The last moment of a finding. A clock was set back by more, if an audit checkpoint was made between both.
    private func end(of finding: Finding) -> AuditTime? {
        finding.kind == .clockSetBack ? finding.lastSeal ?? finding.until : finding.until
    }

    /// The times between which a clock may have been set forward that was later set back; nil if they are closer than it was set
    /// back by. Then it was wrong before, and no record shows since when.
    func forward(of finding: Finding) -> (since: AuditTime, until: AuditTime)? {
        guard let before = finding.before, let ahead = finding.ahead, let since = finding.since,
            let end = end(of: finding),
            ahead.milliseconds - before.milliseconds >= since.milliseconds - end.milliseconds
        else { return nil }
        return (before, ahead)
    }

    /// The first use in no record of a key that an HSM token described with a warning.
    private func firstUnrecorded(_ finding: Finding) -> AuditTime? {
        guard finding.kind == .keyAttributes else { return nil }
        return findings.first { $0.kind == .unrecordedUses && $0.key == finding.key }?.since
    }

    /// The payment tokens that were opened since then; nil if that is after the warning, or longer before than the daemons read
    /// the attributes.
    private func sinceUnrecorded(_ finding: Finding) -> Int? {
        firstUnrecorded(finding).flatMap { first in
            guard first < finding.time, finding.time.milliseconds - first.milliseconds <= WarnedKey.interval else {
                return nil
            }
            return (finding.count ?? 0) + finding.usesBefore.count { $0 >= first }
        }
    }

    /// The keys with the most requests, with their merchants.
    private func facts(ofKeys keys: [String: Int]) -> [JSONValue] {
        UseFacts.greatest(keys).map { key, count in
            let merchant = AuditDigest(base64: key).flatMap { builder.keys[$0]?.merchant }
            return .facts(["key": key, "merchant": merchant, "count": count])
        }
    }

    /// The callers that first opened the payments of a burst of replays.
    private func openers(_ finding: Finding, _ figures: Figures) -> [JSONValue] {
        finding.openers.sorted { $0.key < $1.key }.map { caller, opened in
            .facts([
                "caller": caller,
                "opened": opened.requests.facts(figures, "first decrypt, ok, of replayed payments, by \(caller)"),
                "keys": facts(ofKeys: opened.keys),
            ])
        }
    }

    /// The requests for heads that show between which records a loss lies.
    private func heads(_ loss: Finding) -> JSONValue {
        func fact(_ head: HeadRequest) -> JSONValue {
            .facts(["time": head.time, "record": head.place, "by": head.by])
        }
        let elsewhere = builder.incidents.heads(loss, isOfNode: true)
        let others = builder.incidents.heads(loss, isOfNode: false)
        let exports = builder.acts.exports.filter { entry in
            let ofNode = entry.details["ofNode"]?.stringValue ?? entry.node.name
            return loss.isAnsweredElsewhere(ofNode, RecordPlace(entry), entry.time)
        }.map(HeadRequest.init).sorted { ($0.time, $0.place) < ($1.time, $1.place) }
        return .facts([
            "before": loss.heads.before.map(fact), "after": loss.heads.after.map(fact),
            "elsewhere": elsewhere.prefix(Self.maximumHeads).map(fact), "more": Self.more(elsewhere),
            "others": others.prefix(Self.maximumHeads).map(fact), "moreOthers": Self.more(others),
            "exports": exports.prefix(Self.maximumHeads).map(fact), "moreExports": Self.more(exports),
        ])
    }

    private static let maximumHeads = 20

    private static func more(_ list: [some Any]) -> Int? { max(0, list.count - maximumHeads).ifAny }

    /// The seals during a loss by the HSM tokens' logs: those near a request for a head, and others that are not ordinary; nil if
    /// there are none. Between two seals that are far apart, their number, which is nil without a log. Those that a wrong clock
    /// dated, with their times.
    func signed(during finding: Finding) -> JSONValue? {
        if finding.kind == .clockSetBack { return clock(of: finding) }
        guard [.recordsLost, .sealsApart].contains(finding.kind) else { return nil }
        let (incidents, lost) = (builder.incidents, builder.reconciliation.lostSeals(of: finding))
        let (seals, last) = (lost.seals, lost.seals.last?.time)
        guard finding.kind == .recordsLost else {
            return builder.reconciliation.logs.isEmpty ? nil : .facts(["count": seals.count, "last": last])
        }
        let requests = [true, false].flatMap { incidents.heads(finding, isOfNode: $0) }.sorted {
            ($0.time, $0.place.node) < ($1.time, $1.place.node)
        }
        let asked = requests.map(\.time)
        var (near, times): ([JSONValue], [AuditTime]) = ([], [])
        var ordinary = 0
        for (seal, isOrdinary) in seals {
            let place = asked.firstIndex(notBefore: AuditTime(milliseconds: seal.milliseconds - TokenUseLog.margin))
            if place < asked.count, asked[place].milliseconds <= seal.milliseconds + TokenUseLog.margin {
                near.append(.facts(["time": seal, "record": requests[place].place, "by": requests[place].by]))
            } else if isOrdinary {
                ordinary += 1
            } else {
                times.append(seal)
            }
        }
        return seals.isEmpty
            ? nil
            : .facts([
                "count": seals.count, "first": seals.first?.time, "near": Array(near.prefix(Self.maximumHeads)),
                "moreNear": Self.more(near), "ordinary": ordinary.ifAny,
                "times": Array(times.prefix(Self.maximumHeads)),
                "more": Self.more(times), "last": last, "later": lost.later.ifAny,
            ])
    }

    /// The time by which a clock was ahead, from the times that an HSM token's log has for the seals that it dated, and the
    /// times between which it made the node refuse requests.
    func clock(of finding: Finding) -> JSONValue? {
        let seals = builder.reconciliation.misdatedSeals(by: finding)
        func ahead(_ seal: Reconciliation.MisdatedSeal) -> Int64 { seal.clock.milliseconds - seal.log.milliseconds }
        guard let least = seals.min(by: { ahead($0) < ahead($1) }), let most = seals.max(by: { ahead($0) < ahead($1) }),
            ahead(least) > 0
        else { return nil }
        let refused = finding.refusedAhead
        return .facts([
            "count": seals.count, "first": seals.first?.log, "last": seals.last?.log,
            "least": least.log.length(to: least.clock), "most": most.log.length(to: most.clock, roundedUp: true),
            "since": refused.map { AuditTime(milliseconds: $0.lowerBound.milliseconds - ahead(least)) },
            "until": refused.map { AuditTime(milliseconds: $0.upperBound.milliseconds - ahead(least)) },
        ])
    }

    /// The keys that seal the record.
    var auditKeys: [JSONValue] {
        builder.auditKeys.keys.map { key in
            let range = export.verdict.nodes.first { $0.node == key.node }?.range
            let (change, replacement) = (key.change, key.replacement)
            let kind: (name: String, bits: Int)? = key.isRSA.map { $0 ? ("RSA", 2048) : ("EC", 256) }
            let approval = change.flatMap { change in
                builder.acts.sentence(ofApproval: change.details["approval"]?.stringValue, at: change.time)
            }
            return .facts([
                "node": key.node, "key": key.key, "keyId": key.key.hex, "token": change?.hsmToken,
                "algorithm": kind?.name, "bits": kind?.bits,
                "time": change?.time, "by": change?.callerText, "approval": approval,
                "reason": change?.details["reason"], "record": change.map { RecordPlace($0) },
                "until": replacement?.time, "lost": replacement?.details["formerKey"] == nil ? nil : true,
                "seals": key.seals, "firstSeal": key.firstSeal, "lastSeal": key.lastSeal,
                "unendorsed": range?.unendorsedKeys.contains { $0.keyId == key.key } == true ? true : nil,
            ])
        }
    }

    /// The keys of other nodes that each node trusts, by its record.
    var pins: [JSONValue] {
        builder.auditKeys.pins.map { pin in
            let keys = pin.details["keys"]?.arrayValue?.compactMap { $0.objectValue?["keyId"] } ?? []
            return .facts([
                "node": pin.node, "ofNode": pin.details["ofNode"], "keyIds": keys,
                "vouchedBy": pin.details["vouchedBy"],
                "time": pin.time, "record": RecordPlace(pin),
            ])
        }
    }

    /// The times over ``LateSeals/limit`` in which a node's records were not sealed; nil if there are none.
    private func late(_ seals: LateSeals?) -> JSONValue? {
        seals?.longest.first.flatMap { longest in
            .facts([
                "count": seals?.count, "first": longest.first, "last": longest.last, "since": longest.from,
                "until": longest.to, "length": longest.from.length(to: longest.to),
            ])
        }
    }

    /// The people who asked for a node's heads, with the days on which they did. Days in a row are one element.
    private func headReaders(_ node: SystemHistory.Node) -> [JSONValue] {
        node.headReaders.mapValues { (days: $0, count: $0.values.reduce(0, +)) }.sorted {
            ($1.value.count, $0.key) < ($0.value.count, $1.key)
        }.map { by, asked in
            let runs = asked.days.keys.sorted().reduce(into: [ClosedRange<Int>]()) { runs, day in
                if let last = runs.last, last.upperBound == day - 1 {
                    runs[runs.count - 1] = last.lowerBound...day
                } else {
                    runs.append(day...day)
                }
            }
            return .facts([
                "by": by, "count": asked.count,
                "days": runs.map { run in
                    .facts([
                        "from": ReportStep.text(ofDay: run.lowerBound),
                        "to": run.count > 1 ? ReportStep.text(ofDay: run.upperBound) : nil,
                    ])
                } as [JSONValue],
            ])
        }
    }

    /// The last head of a node that a person asked it for, and the number of records after it.
    private func lastHead(_ node: SystemHistory.Node) -> JSONValue? {
        builder.incidents.lastHead(of: node.node).map { head in
            .facts([
                "time": head.time, "record": head.place, "by": head.by, "later": node.last - head.place.sequence,
            ])
        }
    }

    func nodes(_ figures: Figures) -> [JSONValue] {
        builder.system.sortedNodes.map { node in
            let verdict = export.verdict.nodes.first { $0.node == node.node }
            return .facts([
                "node": node.node, "first": node.first, "last": node.last, "records": node.records,
                "inPeriod": node.inPeriod, "beginsLater": node.first > 1, "sealed": verdict?.range?.sealed,
                "sealedAt": verdict?.range?.sealedAt, "unsealed": verdict?.range?.unsealed,
                "late": late(verdict?.range?.lateSeals),
                "keys": verdict?.source?.description, "firstTime": node.firstTime, "lastTime": node.lastTime,
                "hasSettings": !(builder.system.values[node.node] ?? [:]).isEmpty,
                "retained": builder.system.values[node.node]?["ledger.retain_records"],
                "headReaders": headReaders(node), "lastHead": lastHead(node),
                "starts": figures.figure(node.starts, "event start of \(node.node.name)"),
                "stops": figures.figure(node.stops, "event stop of \(node.node.name)"),
                "programReadings": figures.figure(
                    node.programReadings, "event program_digests of \(node.node.name)"),
            ])
        }
    }

    /// The events that concern the record itself.
    var moments: [JSONValue] {
        SystemHistory.kindsOfMoments.flatMap { what in
            (builder.system.moments[what] ?? []).map { moment in
                .facts([
                    "what": what, "time": moment.time, "text": moment.text, "node": moment.place.node, "by": moment.by,
                    "approval": builder.acts.sentence(ofApproval: moment.approval, at: moment.time),
                    "record": moment.place,
                ])
            }
        }
    }
}

extension AuditTime {
    /// Returns the time between both in its two largest units, such as `5 d 3 h` or `20 s`.
    ///
    /// - Parameter roundedUp: true for an upper bound, false for a lower one.
    func length(to other: AuditTime, roundedUp: Bool = false) -> String {
        let units: [(String, Int64)] = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)]
        var seconds = (abs(other.milliseconds - milliseconds) + (roundedUp ? 999 : 0)) / 1000
        if roundedUp, let first = units.firstIndex(where: { seconds >= $0.1 }) {
            let least = units[min(first + 1, 3)].1
            seconds = (seconds + least - 1) / least * least
        }
        guard let first = units.firstIndex(where: { seconds >= $0.1 }) else { return "0 s" }
        let (name, length) = units[first]
        guard first + 1 < units.count, seconds % length >= units[first + 1].1 else {
            return "\(seconds / length) \(name)"
        }
        let (next, nextLength) = units[first + 1]
        return "\(seconds / length) \(name) \(seconds % length / nextLength) \(next)"
    }
}
