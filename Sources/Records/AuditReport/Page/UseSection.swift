import AuditChain
import Encodings

/// The section with the uses of the keys, by caller and time.
struct UseSection {
    let builder: ReportBuilder
    let findings: [Finding]
    let given: Set<Requirement.Evidence>

    private static let (maximumRows, maximumCharts) = (2_000, 24)

    func write(to page: inout PageWriter) {
        page.heading("6. Use", id: "use")
        writeCharts(to: &page)
        writePairs(to: &page)
        writeRefusals(to: &page)
        writeLateUses(to: &page)
        ReconciliationSection(builder: builder, findings: findings).write(to: &page)
        page.requirements(Requirement.ofUse, given: given)
    }

    private func writeCharts(to page: inout PageWriter) {
        let steps = builder.stepTotals
        page.raw("<div class=\"charts\">\n")
        page.raw(Chart(title: "All uses", steps: steps.map(\.step), values: steps.map(\.uses)).svg)
        page.raw(Chart(title: "Refused requests", steps: steps.map(\.step), values: steps.map(\.refusals)).svg)
        page.raw("</div>\n")
        write(builder.uses.daysOfCallers.map { ("Caller \($0.key)", $0.value) }, steps.map(\.step), to: &page)
        let keys = builder.uses.daysOfKeys.map { key, days in
            ("Key \(key.short) \(builder.keys[key]?.merchant ?? "")", days)
        }
        write(keys, steps.map(\.step), to: &page)
    }

    private func write(_ series: [(name: String, days: [Int: Int])], _ steps: [ReportStep], to page: inout PageWriter) {
        let charts = series.map { name, days in
            (name, steps.map { ReportBuilder.sum([days], $0) }, days.values.reduce(0, +))
        }.sorted { ($1.2, $0.0) < ($0.2, $1.0) }
        page.raw("<div class=\"charts\">\n")
        for (name, values, _) in charts.prefix(Self.maximumCharts) {
            page.raw(Chart(title: name, steps: steps, values: values).svg)
        }
        page.raw("</div>\n")
        if charts.count > Self.maximumCharts {
            page.note("Those beyond the \(Self.maximumCharts) with the most uses have no chart; the table has all.")
        }
    }

    private func writePairs(to page: inout PageWriter) {
        page.subheading("Per key and caller")
        page.table(
            ["Key", "Merchant", "Caller", "Opened", "Opened again", "Signatures", "First", "Last"],
            builder.sortedUses.filter { $0.use.uses > 0 }, most: Self.maximumRows, "pairs", in: "the page's JSON"
        ) { pair, use in
            let of = "key \(pair.key?.base64 ?? "none") by \(pair.caller ?? "nobody")"
            return [
                .key(pair.key), .text(use.merchant ?? "–"), .name(pair.caller ?? "–"),
                .figure(use.released, "decrypt, ok, \(of)"), .figure(use.repeated, "decrypt, repeat, \(of)"),
                .figure(use.signed, "tls_signature, ok, \(of)"), .time(use.firstUse), .time(use.lastUse),
            ]
        }
        if builder.uses.hasFurtherPairs {
            page.note("More than \(KeyUseTally.maximumPairs.grouped) pairs: the rest is counted together.")
        }
        if builder.uses.unchartedUses > 0 {
            page.note(
                "\(builder.uses.unchartedUses.grouped) uses are of keys or callers beyond the first "
                    + "\(KeyUseTally.maximumCharted.grouped): they are in no chart of their own and in no habit.")
        }
        page.note(
            "“Opened again” is the same caller asking for the same transaction again in time, with the same reference: an answer "
                + "that got lost.")
    }

    private func writeRefusals(to page: inout PageWriter) {
        page.subheading("Refusals by reason")
        var byCode: [String: RecordReferences] = [:]
        var callers: [String: [String: Int]] = [:]
        for (pair, use) in builder.sortedUses {
            for (code, references) in use.refused {
                byCode[code, default: RecordReferences()].add(references)
                callers[code, default: [:]][pair.caller ?? "–", default: 0] += references.count
            }
        }
        let codes = Set(byCode.keys).union(builder.uses.floods.keys).sorted()
        page.table(
            ["Reason", "Requests to open or sign", "By caller", "Counted in summary"],
            codes.map { code in
                [
                    .code(code), .figure(byCode[code] ?? RecordReferences(), "decrypt or tls_signature, \(code)"),
                    .text(Self.ordered(callers[code] ?? [:])),
                    .count(builder.uses.floods[code] ?? 0),
                ]
            })
        page.table(
            ["Caller", "Refused", "First", "Last", "Most in an hour", "In the hour from"],
            builder.refusals.sortedCallers, most: Self.maximumRows, "callers", in: "the page's JSON"
        ) { name, caller in
            let worst = caller.worstHour
            return [
                .name(name), .count(caller.count), .time(caller.first), .time(caller.last), .count(worst.count),
                .time(worst.hour),
            ]
        }
        if builder.refusals.omitted > 0 {
            page.note(
                "\(builder.refusals.omitted.grouped) refused requests are of callers beyond the first "
                    + "\(RefusalsByCaller.maximumCallers.grouped).")
        }
        page.note(
            "By caller are all refused requests: to open or sign, those that were refused before they named an operation, and "
                + "those counted in summary. uid is an account that no access rule knows.")
        page.note(
            "transaction_replayed is a replay: a payment that was opened before was offered again, by another caller, too late, or "
                + "without its reference. Nothing was given out.")
    }

    /// Returns the callers in descending order of their counts, such as `shop 12, other 3`.
    private static func ordered(_ callers: [String: Int]) -> String {
        let ordered = callers.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        let shown = ordered.prefix(maximumCallers).map { "\($0.key) \($0.value.grouped)" }
        let more =
            ordered.count > maximumCallers ? ["\((ordered.count - maximumCallers).grouped) more callers"] : []
        return shown.isEmpty ? "–" : (shown + more).joined(separator: ", ")
    }

    private static let maximumCallers = 10

    private func writeLateUses(to page: inout PageWriter) {
        page.subheading("Opened under a key after it was superseded")
        page.table(
            ["Key", "Caller", "Superseded", "Opened after", "Last"],
            builder.sortedUses.filter { !$0.use.afterSuperseded.isEmpty }, most: Self.maximumRows, "pairs",
            in: "the page's JSON"
        ) { pair, use in
            [
                .key(pair.key), .name(pair.caller ?? "–"), .time(pair.key.flatMap { builder.lateAfter($0) }),
                .figure(use.afterSuperseded, "decrypt, key \(pair.key?.base64 ?? ""), after its deactivation"),
                .time(use.lastUse),
            ]
        }
        page.note(
            "A key is superseded with its first deactivation. Until the cut-off that was set then it opens what wallets had "
                + "encrypted to it before. Where that deactivation is archived and not in this export, the time is the one before "
                + "which it was.")
    }
}
