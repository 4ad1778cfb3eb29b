import AuditChain
import DaemonAPI
import Encodings
import Foundation

/// The inventory of keys: each key's properties, origin and life.
struct KeysSection {
    let builder: ReportBuilder
    let live: LiveState?
    let others: [OtherLedger]
    let given: Set<Requirement.Evidence>

    private static let maximumShown = 5_000

    func write(to page: inout PageWriter) {
        page.heading("5. Inventory of keys", id: "keys")
        let keys = builder.sortedKeys
        let summaries = Dictionary(
            (live?.keys ?? []).map { ($0.publicKeyHash, $0) }, uniquingKeysWith: { first, _ in first })
        let states = Dictionary(grouping: keys, by: \.state).mapValues(\.count)
        page.paragraph(
            keys.isEmpty
                ? "The record knows no key."
                : "\(keys.count.grouped) keys by the record: "
                    + states.sorted { $0.key < $1.key }.map { "\($0.value.grouped) \($0.key)" }
                    .joined(separator: ", ") + ".")
        page.table(
            ["Key (publicKeyHash)", "Merchant", "Use", "State", "Came", "Served", "Certificate ends", "Tokens"],
            keys, most: Self.maximumShown, "keys"
        ) { row($0, summaries[$0.key.base64]) }
        if builder.stepsNotKept > 0 {
            page.note(
                "The report takes the first \(ReportBuilder.maximumKeys.grouped) keys of an export. "
                    + "\(builder.stepsNotKept.grouped) steps of more keys are in the export, and their states are not here."
            )
        }
        page.subheading("Each key's life")
        page.table(
            ["Key", "Step", "Time", "By", "Second person", "Reason", "Record"],
            keys.prefix(Self.maximumShown).flatMap { key in Self.shown(key).map { row(key, $0) } })
        let omitted = keys.reduce(0) { $0 + $1.omitted }
        if omitted > 0 {
            page.note("\(omitted.grouped) more signing requests and certificates are in the export.")
        }
        page.note(
            "Served: from its certificate, or its arrival, until it was first deactivated, compromised or destroyed. Where a second person "
                + "approved, “by” is who carried it out; both stand under People. For comparison: Apple's certificates last 25 months, "
                + "and SP 800-57 part 1 recommends at most two years for private key-transport and static key-agreement keys."
        )
        if let live {
            let histories = Dictionary(
                keys.map { ($0.key.base64, $0) }, uniquingKeysWith: { first, _ in first })
            KeyAttributesTable(live: live, histories: histories, maximumRows: Self.maximumShown).write(to: &page)
        }
        writeKeysOfOtherLedgers(keys, to: &page)
        writeDifferences(keys, summaries, to: &page)
        page.requirements(Requirement.ofKeys, given: given)
    }

    private func row(_ key: KeyHistory, _ summary: KeySummary?) -> [PageWriter.Cell] {
        [
            .code(key.key.base64), .text(key.merchant ?? summary?.merchantIdentifier ?? "–"),
            .text(summary.map { "\($0.use), \($0.algorithm)" } ?? use(of: key.key)), .text(key.state),
            .text(key.arrival.map { "\(Self.stepText($0.step)), \($0.time.day)" } ?? "before the record"),
            .text(servicePeriod(key)), .text(Self.end(summary)), .text(summary?.tokens.joined(separator: ", ") ?? "–"),
        ]
    }

    /// Returns the events to show: all steps, and the first statement of the key's state if the export does not contain
    /// the key's arrival.
    private static func shown(_ key: KeyHistory) -> [KeyHistory.Event] {
        key.events.filter { event in
            !event.isStatement || key.arrival == nil && event == key.statement
        }
    }

    private func row(_ key: KeyHistory, _ event: KeyHistory.Event) -> [PageWriter.Cell] {
        [
            .key(key.key), .text(Self.stepText(event.step)), .time(event.time),
            .name(event.by ?? "the daemon"),
            .text(builder.acts.sentence(ofApproval: event.approval, at: event.time) ?? "–"), .text(event.reason ?? "–"),
            .places([event.place]),
        ]
    }

    /// Returns the key's use (`identity` or `processing`) as its recorded operations show it, or `–` if there are none.
    /// It is needed only without the daemon's state, which lists the use.
    private func use(of key: AuditDigest) -> String {
        let uses = builder.uses.uses.filter { $0.key.key == key }.values
        if uses.contains(where: { !$0.signed.isEmpty }) { return "identity" }
        return uses.contains { !$0.released.isEmpty || !$0.repeated.isEmpty } ? "processing" : "–"
    }

    private func servicePeriod(_ key: KeyHistory) -> String {
        let end = ["deactivated", "compromised", "destroyed"].compactMap { key.first($0)?.time }.min()
        guard let start = key.activation?.time else {
            guard let statement = key.statement, statement.step != .stated("pre-activation") else { return "–" }
            let isServing = key.state == "active" || key.state == "suspended"
            return "from before these records to \(end.map(\.day) ?? (isServing ? "the period's end" : "before them"))"
        }
        let last = end ?? builder.period.until
        guard last > start else { return "from \(start.day), after the period" }
        let days = (last.milliseconds - start.milliseconds) / 86_400_000
        return "\(start.day) to \(end.map(\.day) ?? "the period's end"), \(Int(days).grouped) days"
    }

    static func stepText(_ step: KeyHistory.Step) -> String {
        switch step {
        case .generated: "made in a token"
        case .imported: "came from a file"
        case .adopted: "found in a token, and adopted"
        case .requestMade: "signing request made"
        case .certificate: "certificate imported"
        case .state(let state): state
        case .objectsDestroyed: "objects in the token destroyed"
        case .stated(let state): "was \(state) when its records were archived"
        }
    }

    private static func end(_ key: KeySummary?) -> String {
        guard let key, let notAfter = key.notAfter else { return "–" }
        let day = AuditTime(notAfter).day
        guard let left = key.daysLeft else { return day }
        return left < 0 ? "\(day), \(-left) days ago" : "\(day), \(left) days left"
    }

    private func writeKeysOfOtherLedgers(_ keys: [KeyHistory], to page: inout PageWriter) {
        page.subheading("Keys that another ledger has too")
        guard !others.isEmpty else {
            return page.note("No other ledger's list of keys was given (--other-keys), so nothing was compared.")
        }
        let own = Set(keys.map(\.key.base64)).union((live?.keys ?? []).map(\.publicKeyHash))
        page.table(
            ["Other ledger's list", "Its keys", "In both"],
            others.map { other in
                let both = own.intersection(other.keys).sorted()
                return [
                    .text(other.name), .count(other.keys.count),
                    .text(both.isEmpty ? "none" : both.prefix(Self.maximumShown).joined(separator: ", ")),
                ]
            })
    }

    /// Writes a table of keys whose state in the record differs from their state in the daemon's list, or that only one
    /// of both contains.
    private func writeDifferences(
        _ keys: [KeyHistory], _ summaries: [String: KeySummary], to page: inout PageWriter
    ) {
        guard live != nil else { return }
        page.subheading("Where the record and the daemon differ")
        let known = Set(keys.map(\.key.base64))
        var rows: [[PageWriter.Cell]] = keys.compactMap { key in
            guard let now = summaries[key.key.base64] else {
                return key.state == "destroyed"
                    ? nil
                    : [.code(key.key.base64), .text("\(key.state) by the record, and the daemon does not list it")]
            }
            guard now.state != key.state else { return nil }
            return [.code(key.key.base64), .text("\(key.state) by the record, \(now.state) by the daemon")]
        }
        for summary in summaries.values.sorted(by: { $0.publicKeyHash < $1.publicKeyHash })
        where !known.contains(summary.publicKeyHash) {
            rows.append([
                .code(summary.publicKeyHash),
                .text(
                    summary.condition == "external"
                        ? "in a token, and not known to the ledger: it serves no caller"
                        : "\(summary.state) by the daemon, and its arrival is not in this export"),
            ])
        }
        for summary in summaries.values.sorted(by: { $0.publicKeyHash < $1.publicKeyHash }) {
            guard let remark = summary.remark, known.contains(summary.publicKeyHash) else { continue }
            rows.append([.code(summary.publicKeyHash), .text(remark)])
        }
        page.table(["Key", "Difference"], rows, most: Self.maximumShown, "differences", in: "record and daemon") { $0 }
    }
}
