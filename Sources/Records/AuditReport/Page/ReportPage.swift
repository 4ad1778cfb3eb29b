public import AuditChain
import StrictJSON

/// The assessor's page, with its sections in the order in which an assessor with one hour reads them.
public struct ReportPage {
    let builder: ReportBuilder
    let export: VerifiedExport
    /// The daemon's state; nil if the report is made from a file alone.
    let live: LiveState?
    let others: [OtherLedger]
    let madeAt: AuditTime
    let version: String

    public init(
        builder: ReportBuilder, export: VerifiedExport, live: LiveState?, others: [OtherLedger] = [],
        madeAt: AuditTime, version: String
    ) {
        self.builder = builder
        self.export = export
        self.live = live
        self.others = others
        self.madeAt = madeAt
        self.version = version
    }

    /// The page as HTML in UTF-8.
    public var bytes: [UInt8] {
        var page = PageWriter()
        page.raw(Self.beginning)
        let nodes = builder.system.nodes.keys.sorted().map(\.name).joined(separator: ", ")
        page.raw(
            "<header><h1>Key-usage report</h1><p>\(PageWriter.escaped(builder.period.since.shown)) to "
                + "\(PageWriter.escaped(builder.period.until.shown)) UTC · nodes \(PageWriter.escaped(nodes)) · made "
                + "\(PageWriter.escaped(madeAt.shown)) UTC by paytokenctl \(PageWriter.escaped(version))</p></header>\n"
        )
        page.raw(
            """
            <nav><ol><li><a href="#verdict">Verdict</a></li><li><a href="#findings">Findings</a></li>\
            <li><a href="#record">Record</a></li><li><a href="#system">System</a></li>\
            <li><a href="#keys">Keys</a></li><li><a href="#use">Use</a></li><li><a href="#people">People</a></li>\
            <li><a href="#limits">What this does not show</a></li><li><a href="#figures">Figures and their records</a></li></ol></nav>

            """)
        let given = Set<Requirement.Evidence>(
            (live == nil ? [] : [.daemon]) + (builder.listed.isEmpty ? [] : [.components]))
        let (findings, omitted) = builder.collectFindings()
        let verdict = VerdictSection(builder: builder, findings: findings, export: export, given: given)
        verdict.writeVerdict(to: &page)
        FindingsSection(builder: builder, findings: findings, omitted: omitted).write(to: &page)
        verdict.writeChains(to: &page)
        SystemSection(builder: builder, live: live, given: given).write(to: &page)
        KeysSection(builder: builder, live: live, others: others, given: given).write(to: &page)
        UseSection(builder: builder, findings: findings, given: given).write(to: &page)
        PeopleSection(builder: builder, given: given).write(to: &page)
        LimitsSection(
            hasLive: live != nil, isProved: export.isProved, isReconciled: !builder.reconciliation.logs.isEmpty
        ).write(to: &page)
        SettingsSection(builder: builder).write(to: &page)
        FiguresSection(figures: page.figures, export: export).write(to: &page)
        page.raw("<script type=\"application/json\" id=\"totals\">")
        page.raw(Self.forScript(ReportTotals(builder: builder, findings: findings).bytes))
        page.raw("</script>\n</body></html>\n")
        return Array(page.html.utf8)
    }

    /// Escapes `<` in JSON for a script element, since `</script` in a text would end the element (HTML Living Standard
    /// 4.12.1.3).
    private static func forScript(_ json: [UInt8]) -> String {
        String(decoding: json, as: UTF8.self).replacing("<", with: "\\u003c")
    }

    private static let beginning = """
        <!doctype html>
        <html lang="en"><head><meta charset="utf-8">
        <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>Key-usage report</title>
        <style>
        :root { color-scheme: light; --line: #c9ced6; --dim: #5b6470; --bar: #2f5f8f; --good: #1d6b36; --bad: #a3201d; }
        body { font: 15px/1.45 system-ui, "Liberation Sans", sans-serif; color: #16191d; background: #fff; max-width: 76rem;
          margin: 0 auto; padding: 1rem 1.5rem 4rem; }
        h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.3rem; margin: 2.4rem 0 .6rem; border-bottom: 2px solid #16191d; }
        h3 { font-size: 1.02rem; margin: 1.3rem 0 .4rem; } p { margin: .4rem 0; max-width: 60rem; }
        nav ol { padding-left: 1.2rem; columns: 2; max-width: 40rem; } a { color: #14477a; }
        .note { color: var(--dim); } .verdict { font-size: 1.15rem; padding: .7rem 1rem; border-left: .5rem solid; margin: .8rem 0; }
        .good { border-color: var(--good); background: #eef6f0; } .bad { border-color: var(--bad); background: #faeeee; }
        table { border-collapse: collapse; margin: .5rem 0 1rem; font-size: .88rem; max-width: 100%; }
        th, td { border: 1px solid var(--line); padding: .2rem .5rem; text-align: left; vertical-align: top; overflow-wrap: break-word; }
        td code:not(.t) { overflow-wrap: anywhere; } .t, .place { white-space: nowrap; }
        th { background: #f2f4f7; overflow-wrap: normal; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
        table.pairs th { white-space: nowrap; }
        code, pre, .place { font-family: ui-monospace, "Liberation Mono", monospace; font-size: .92em; }
        pre { background: #f2f4f7; padding: .6rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere; } .place { color: var(--dim); }
        aside { border-left: .25rem solid var(--line); padding-left: .9rem; margin: 1rem 0; }
        .charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(30rem, 1fr)); gap: .4rem 2rem; }
        figure { margin: .3rem 0; break-inside: avoid; } figcaption { font-weight: 600; font-size: .88rem; }
        svg { width: 100%; height: auto; } svg text { font-size: 9px; fill: var(--dim); } svg rect { fill: var(--bar); }
        svg .axis { stroke: var(--line); }
        @media print { body { font-size: 10pt; max-width: none; padding: 0; } nav { display: none; } h2 { break-after: avoid; }
          h3 { break-after: avoid; } tr { break-inside: avoid; } thead { display: table-header-group; } a { color: inherit; }
          @page { size: A4 landscape; margin: 14mm; } }
        </style></head><body>

        """
}
