import AuditChain
import StrictJSON

/// The times in which nodes did not serve.
extension RecordFacts {
    /// The planned stops, and the findings in which a node did not serve, in order of time.
    var downtimes: [JSONValue] {
        let stops = builder.system.sortedNodes.flatMap(\.allDowntimes).map { stop in
            (
                stop.since, stop.place,
                JSONValue.facts([
                    "kind": "stop", "node": stop.place.node, "since": stop.since, "until": stop.until,
                    "length": stop.until.map { stop.since.length(to: $0) }, "record": stop.place,
                ])
            )
        }
        let others = findings.compactMap { finding -> (AuditTime, RecordPlace, JSONValue)? in
            guard let place = finding.records.beginning.first, let down = downtime(of: finding) else { return nil }
            return (
                down.since ?? finding.time, place,
                .facts([
                    "kind": finding.kind.rawValue, "node": finding.node, "time": finding.time,
                    "started": finding.kind == .recordsLost ? finding.until : nil, "since": down.since,
                    "until": down.until,
                    "length": down.isMost ? down.since?.length(to: down.until, roundedUp: true) : nil,
                    "least": down.sure.map { $0.lowerBound.length(to: $0.upperBound) } ?? "0 s", "count": finding.count,
                    "refused": finding.refused, "forward": forward(of: finding) == nil ? nil : true,
                    "sealed": finding.kind == .recordsDropped ? finding.lastSeal : nil,
                    "signed": signed(during: finding) == nil ? nil : true, "record": place,
                ])
            )
        }
        return (stops + others).sorted { ($0.0, $0.1) < ($1.0, $1.1) }.map(\.2)
    }

    /// Returns the longest time in which a finding's node may not have served, from the last sign of service before to the first
    /// after it, and the time in which it surely did not; nil for other findings. If one of the two signs is missing after HSM
    /// tokens did not answer, only the latter is known. Without a log of its seals, the node that lost records gave the last sign
    /// with the copy's last record. Since when a clock was wrong may be unknown.
    private func downtime(
        of finding: Finding
    ) -> (since: AuditTime?, until: AuditTime, sure: ClosedRange<AuditTime>?, isMost: Bool)? {
        func range(_ since: AuditTime?, _ until: AuditTime?) -> ClosedRange<AuditTime>? {
            since.flatMap { since in until.map { min(since, $0)...max(since, $0) } }
        }
        switch finding.kind {
        case .recordsLost:
            let (served, seals) = (
                finding.servedFrom ?? finding.time, builder.reconciliation.lostSeals(of: finding).seals
            )
            return (seals.last?.time ?? finding.since, served, range(finding.until, served), true)
        case .endedWithoutStop:
            return finding.until.map { (finding.lastSeal ?? finding.since, $0, nil, true) }
        case .hsmUnavailable:
            let sure = range(finding.since, finding.until)
            if let before = finding.before, let next = [finding.nextUse, finding.nextSeal].compactMap(\.self).min() {
                return (before, next, sure, true)
            }
            return sure.map { ($0.lowerBound, $0.upperBound, sure, false) }
        case .recordsDropped:
            return finding.until.map { (finding.since ?? finding.previous?.time, $0, nil, true) }
        case .clockSetBack where finding.refused ?? 0 > 0:
            let sure = range(firstRefused(by: finding), (finding.refusedBack ?? finding.refusedAhead)?.upperBound)
            return finding.nextUse.map { (forward(of: finding)?.since, $0, sure, true) }
        default: return nil
        }
    }

    /// The time from which a wrong clock surely made the node refuse requests, on the clock of the last one that it refused. Without the
    /// HSM token's log, the time between the last request before the clock was set back and the first one after is not known, and left out.
    private func firstRefused(by finding: Finding) -> AuditTime? {
        guard let ahead = finding.refusedAhead, let back = finding.refusedBack else {
            return (finding.refusedAhead ?? finding.refusedBack)?.lowerBound
        }
        let since = clock(of: finding)?.objectValue?["since"]?.stringValue.flatMap(AuditTime.init(stored:))
        let length = ahead.upperBound.milliseconds - ahead.lowerBound.milliseconds
        return since ?? AuditTime(milliseconds: back.lowerBound.milliseconds - length)
    }
}
