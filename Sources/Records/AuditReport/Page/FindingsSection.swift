import AuditChain
import Encodings

/// The first section after the verdict: what an assessor should ask about, in order of time.
struct FindingsSection {
    let builder: ReportBuilder
    let findings: [Finding]
    let omitted: Int

    private static let maximumRows = 2_000

    func write(to page: inout PageWriter) {
        page.heading("2. Findings", id: "findings")
        page.table(
            ["Time", "Finding", "Node", "Key", "Caller or person", "Records"], findings,
            most: Self.maximumRows, omitted: omitted, "findings"
        ) { finding in
            [
                .time(finding.time), .text(sentence(finding)), .name(finding.node?.name ?? "–"), .key(finding.key),
                .name(finding.caller ?? "–"),
                finding.records.isEmpty ? .none : .figure(finding.records, "finding \(finding.kind.rawValue)"),
            ]
        }
        page.note(
            "A finding is a reason to ask, and no fault by itself. Replays count from \(RefusalsByCaller.replaysOfDay) of one "
                + "caller on one day. A busy hour has more than \(CallerAnomaly.factor) times the uses of the busiest hour of the "
                + "\(CallerAnomaly.weeks) weeks before it, an unusual hour had no use at that time of the day in these weeks, and both "
                + "have at least \(CallerAnomaly.least) uses. A key's first use by a caller counts if both have been in use for "
                + "\(CallerAnomaly.weeks) weeks.")
    }

    private func sentence(_ finding: Finding) -> String {
        let count = (finding.count ?? 0).grouped
        let range = Self.range(finding)
        return switch finding.kind {
        case .recordsLost:
            "\(count) records were lost when an older ledger was taken into service: \(Self.sequences(finding))\(range). "
                + "Records after the last audit checkpoint that the HSM token remembered may be lost too."
        case .recordsDropped: "\(count) records of refusals could not be written\(range)."
        case .endedWithoutStop:
            "The daemon had ended without recording a stop: it was killed, or its host lost power. No record\(range)."
        case .headMemoryLost:
            "The HSM token \(finding.hsmToken ?? "–") did not store the record's newest end after \(count) start\(finding.count == 1 ? "" : "s")\(range). After "
                + "such a start, an older copy of the ledger is not noticed."
        case .clockSetBack: "The clock was set back\(range)."
        case .clockAccepted: "A person confirmed the clock although records had later times."
        case .sealsApart:
            "\(count) times, more than a day passed between two audit checkpoints; the longest time\(range)."
        case .ownRequest: "A person tried to approve their own request."
        case .replays: "\(count) payment tokens were sent again, and refused\(range)."
        case .busyHour: "\(count) uses in this hour; in the weeks before, at most \((finding.usual ?? 0).grouped)."
        case .unusualHour: "\(count) uses in this hour of the day, at which the caller had none in the weeks before."
        case .firstUse: "The caller used this key for the first time."
        case .unknownCallers: "\(count) requests of accounts that no access rule knows were refused\(range)."
        case .keyCompromised: compromise(finding)
        case .usedAfterSuperseded:
            "\(count) payment tokens were opened with the key after its deactivation\(range)."
        case .certificateRefused: "A certificate was refused, and none was imported for the key afterwards."
        case .keyNotDestroyed: "The key is \(state(finding)) since then, and was not destroyed."
        case .softwareToken:
            "The HSM token \(finding.hsmToken ?? "–") is SoftHSM since then, which keeps its keys in files of the host."
        case .unrecordedUses:
            "An HSM token counted \(count) uses of the key on this day that are in no record, and that no lost record explains."
        }
    }

    private func state(_ finding: Finding) -> String { finding.key.flatMap { builder.keys[$0]?.state } ?? "–" }

    private func compromise(_ finding: Finding) -> String {
        let last = finding.since.map { "The last use before was at \($0.shown)" } ?? "There was no use before"
        let blocked = finding.until.map { ", the key was blocked at \($0.shown)" } ?? ""
        return "The key was recorded as compromised. \(last)\(blocked), and \((finding.count ?? 0).grouped) requests "
            + "with it were refused afterwards."
    }

    private static func sequences(_ finding: Finding) -> String {
        guard let first = finding.first, let last = finding.last else { return "–" }
        return first == last ? "record \(first)" : "records \(first) to \(last)"
    }

    /// Returns the time of a finding as a phrase, such as `, from 2026-04-05 00:46:39 to 2026-04-10 04:00:00 (5 d 3 h)`.
    static func range(_ finding: Finding) -> String {
        guard let since = finding.since, let until = finding.until else { return "" }
        let length = duration(abs(until.milliseconds - since.milliseconds) / 1000)
        return ", from \(since.shown) to \(until.shown) (\(length))"
    }

    /// Returns a duration in its two largest units, such as `5 d 3 h` or `20 s`.
    static func duration(_ seconds: Int64) -> String {
        let units: [(String, Int64)] = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)]
        guard let first = units.firstIndex(where: { seconds >= $0.1 }) else { return "0 s" }
        let (name, length) = units[first]
        guard first + 1 < units.count, seconds % length >= units[first + 1].1 else {
            return "\(seconds / length) \(name)"
        }
        let (next, nextLength) = units[first + 1]
        return "\(seconds / length) \(name) \(seconds % length / nextLength) \(next)"
    }
}
