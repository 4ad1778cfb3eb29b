public import AuditChain
public import StrictJSON

/// The files that check a page, as the program that made it has read them.
public struct InstalledVerifier: Sendable {
    public var folder: String
    /// The files by name, with their SHA-256.
    public var files: [(name: String, digest: AuditDigest)]

    /// The names of the files: the two scripts, what the second imports, and the page's template.
    public static let names = [
        "verify-audit", "recount-report", "report_facts.py", "report_findings.py", "report_records.py",
        "report_template.py", "report_tokens.py", "report.template.html",
    ]

    public init(folder: String, files: [(name: String, digest: AuditDigest)]) {
        (self.folder, self.files) = (folder, files)
    }
}

/// The assessor's page: one JSON value with every fact, and a template that turns it into HTML.
public struct ReportPage {
    let builder: ReportBuilder
    let export: VerifiedExport
    /// The daemon's state; nil if the report is made from a file alone.
    let live: LiveState?
    let others: [OtherLedger]
    /// Nil if the program found no files that check the page.
    let verifier: InstalledVerifier?
    let madeAt: AuditTime
    let version: String

    public init(
        builder: ReportBuilder, export: VerifiedExport, live: LiveState?, others: [OtherLedger] = [],
        verifier: InstalledVerifier? = nil, madeAt: AuditTime, version: String
    ) {
        self.builder = builder
        self.export = export
        self.live = live
        self.others = others
        self.verifier = verifier
        self.madeAt = madeAt
        self.version = version
    }

    static let template = PageTemplate(String(decoding: PackageResources.report_template_html, as: UTF8.self))

    /// The page as HTML in UTF-8.
    public var bytes: [UInt8] {
        guard let template = Self.template else { preconditionFailure("the page's template is malformed") }
        return Array(template.render(report).utf8)
    }

    /// Every fact of the page, in the page's order. The article ReportFigures lists the members.
    public var report: JSONValue {
        let (findings, omitted) = builder.collectFindings()
        let (figures, system) = (Figures(), builder.system)
        let (record, systemFacts) = (
            RecordFacts(builder: builder, findings: findings, export: export), SystemFacts(builder: builder)
        )
        let keys = KeyTableFacts(builder: builder, live: live, others: others)
        let (use, people) = (UseFacts(builder: builder, findings: findings), PeopleFacts(builder: builder))
        let (nodes, hsmTokens) = (system.sortedNodes, HSMTokenFacts(builder: builder))
        return .facts([
            "format": 3, "since": builder.period.since, "until": builder.period.until, "madeAt": madeAt,
            "version": version,
            "verifier": verifier.map { verifier in
                JSONValue.facts([
                    "folder": verifier.folder,
                    "files": verifier.files.map {
                        .facts(["file": $0.name, "sha256": $0.digest.hex])
                    } as [JSONValue],
                ])
            },
            "given": JSONValue.facts([
                "daemon": live != nil, "components": !builder.listed.isEmpty,
                "tokenUses": !builder.reconciliation.logs.isEmpty,
            ]),
            "export": JSONValue.facts([
                "file": export.file, "bytes": export.bytes, "sha256": export.digest.hex, "page": export.page,
                "keys": export.keyFiles, "pinning": export.pinning,
            ]),
            "verdict": record.verdict,
            "thresholds": JSONValue.facts([
                "replays": RefusalsByCaller.replaysOfDay, "factor": CallerAnomaly.factor, "weeks": CallerAnomaly.weeks,
                "least": CallerAnomaly.least, "refusals": RefusalsByCaller.refusalsOfHour,
            ]),
            "findings": record.findings(figures), "omittedFindings": omitted.ifAny,
            "nodes": record.nodes(figures), "moments": record.moments, "omittedArchives": system.omittedArchives.ifAny,
            "events": record.events, "system": systemFacts.totals,
            "live": live.map(systemFacts.live), "tokens": hsmTokens.hsmTokens, "versions": systemFacts.versions,
            "downtimes": systemFacts.downtimes,
            "unlisted": !builder.unlistedPrograms.isEmpty, "programs": systemFacts.programs,
            "configurations": systemFacts.configurations,
            "omittedChangesOfFiles": nodes.reduce(0) { $0 + $1.omitted }.ifAny,
            "credentials": systemFacts.credentials, "changes": systemFacts.changes,
            "omittedChanges": system.omittedChanges.ifAny,
            "states": keys.states, "keys": keys.keys,
            "keysNotKept": builder.stepsNotKept.ifAny, "maximumKeys": ReportBuilder.maximumKeys,
            "omittedSteps": builder.keys.values.reduce(0) { $0 + $1.omitted }.ifAny,
            "attributes": hsmTokens.attributes, "others": keys.keysOfOtherLedgers,
            "differences": live == nil ? nil : keys.differences,
            "steps": use.steps, "charts": use.charts, "uses": use.pairs(figures),
            "furtherPairs": builder.uses.hasFurtherPairs ? KeyUseTally.maximumPairs : nil,
            "uncharted": builder.uses.unchartedUses == 0
                ? nil : JSONValue.facts(["uses": builder.uses.unchartedUses, "beyond": KeyUseTally.maximumCharted]),
            "reasons": use.reasons(figures), "refusals": use.refusals,
            "omittedRefusals": builder.refusals.omitted == 0
                ? nil
                : JSONValue.facts(["requests": builder.refusals.omitted, "beyond": RefusalsByCaller.maximumCallers]),
            "late": use.lateUses(figures), "tokenUses": use.tokenUses,
            "rules": people.rules, "people": people.people(figures),
            "endsOfApprovals": people.endsOfApprovals, "approvals": people.approvals,
            "omittedApprovals": builder.acts.omittedApprovals.ifAny,
            "acts": people.acts, "omittedActs": builder.acts.omitted.ifAny, "readings": people.readings(figures),
            "settings": systemFacts.settings, "figures": figures.all,
        ])
    }
}
