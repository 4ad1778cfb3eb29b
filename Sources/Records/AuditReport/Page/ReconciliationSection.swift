import AuditChain
import Encodings

/// The part of the section *Use* that compares the HSM tokens' own counts of their keys' uses with the record.
struct ReconciliationSection {
    let builder: ReportBuilder

    private static let (maximumRows, maximumDays) = (500, 12)

    func write(to page: inout PageWriter) {
        let reconciliation = builder.reconciliation
        page.subheading("What the tokens themselves counted")
        guard !reconciliation.logs.isEmpty else {
            page.paragraph(
                "No counter or log of a token was given, so nothing here shows uses of a key that passed this program by."
            )
            return
        }
        for (place, log) in reconciliation.logs.enumerated() {
            write(log, place, reconciliation, to: &page)
        }
        page.note(
            "The record says at least and at most how often a key was used: a call without an answer may have been carried out. What a "
                + "token counted beyond the most is in no record: uses by others, calls that were repeated after a worker's end, or "
                + "records that were lost with a ledger. Whoever controls the token's log can change it."
        )
    }

    private func write(
        _ log: TokenUseLog, _ place: Int, _ reconciliation: Reconciliation, to page: inout PageWriter
    ) {
        let names = [
            log.token.map { "token \($0)" }, log.serial.map { "serial \($0)" },
            log.node.map { "used by node \($0.name)" } ?? "used by all nodes",
        ].compactMap(\.self).joined(separator: ", ")
        page.paragraph(
            "\(log.kind == .log ? "Log" : "Counter") of \(names), \(log.since.shown) to \(log.until.shown) UTC:")
        let all = reconciliation.comparisons(of: place)
        page.table(
            [
                "Key", "Merchant", "Token counted", "Record, at least", "At most", "In no record", "Not counted",
                "On days",
            ],
            all.prefix(Self.maximumRows).map { comparison in
                let known = builder.keys[comparison.key]
                let days = reconciliation.daysWithUnexplainedUses(comparison.key, of: place)
                let shown = comparison.unexplained > 0 ? days.prefix(Self.maximumDays).map(ReportStep.text(ofDay:)) : []
                return [
                    .key(comparison.key), .text(known?.merchant ?? "not a merchant's key"),
                    .count(comparison.counted), .count(comparison.recorded.least), .count(comparison.recorded.most),
                    comparison.unexplained > 0
                        ? .strong(comparison.unexplained.grouped) : .count(0),
                    .count(comparison.missing),
                    .text(
                        shown.isEmpty
                            ? "–" : shown.joined(separator: ", ") + (days.count > shown.count ? " and more" : "")),
                ]
            })
        if all.count > Self.maximumRows {
            page.note("\(all.count - Self.maximumRows) more keys are in the totals only.")
        }
    }
}
