import AuditChain
import Encodings

/// The part of the section *Use* that compares the HSM tokens' own counts of their keys' uses with the record.
struct ReconciliationSection {
    let builder: ReportBuilder
    let findings: [Finding]

    private static let maximumRows = 500

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
            ],
            all.prefix(Self.maximumRows).map { comparison in
                let known = builder.keys[comparison.key]
                return [
                    .key(comparison.key), .text(known?.merchant ?? "not a merchant's key"),
                    .count(comparison.counted), .count(comparison.recorded.least), .count(comparison.recorded.most),
                    comparison.unexplained > 0
                        ? .strong(comparison.unexplained.grouped) : .count(0),
                    .count(comparison.missing),
                ]
            })
        if all.count > Self.maximumRows {
            page.note("\(all.count - Self.maximumRows) more keys are in the totals only.")
        }
        writeExplanation(of: all.reduce(0) { $0 + $1.unexplained }, place, reconciliation, to: &page)
    }

    /// Writes the unexplained uses by day, and how many of them lost records may explain.
    private func writeExplanation(
        of unexplained: Int, _ place: Int, _ reconciliation: Reconciliation, to page: inout PageWriter
    ) {
        let days = reconciliation.unexplainedDays(of: place)
        guard unexplained > 0, !days.isEmpty else { return }
        let losses = reconciliation.losses(findings, of: place)
        let explainable = min(reconciliation.explainable(by: losses, of: place), unexplained)
        page.paragraph(
            "Of the \(unexplained.grouped) uses in no record, lost records can explain at most \(explainable.grouped). At least "
                + "\((unexplained - explainable).grouped) they cannot.")
        page.table(
            ["Day", "Key", "Merchant", "Token counted", "Record, at most", "Records lost at that time"], days,
            most: Self.maximumRows, "days", in: "the page's JSON"
        ) { day in
            let lost = losses.filter(day.isWithin)
            return [
                .text(ReportStep.text(ofDay: day.day)), .key(day.key), .text(builder.keys[day.key]?.merchant ?? "–"),
                .count(day.counted), .count(day.most),
                .text(lost.isEmpty ? "none" : lost.map { "on \($0.node?.name ?? "–")" }.joined(separator: ", ")),
            ]
        }
    }
}
