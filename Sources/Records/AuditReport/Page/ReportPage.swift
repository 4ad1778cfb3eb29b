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
        "report_signatures.py", "report_template.py", "report_tokens.py", "report.template.html",
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
        let (findings, omitted) = builder.collectFindings(madeAt: madeAt)
        let figures = Figures()
        let (record, systemFacts) = (
            RecordFacts(builder: builder, findings: findings, export: export), SystemFacts(builder: builder)
        )
        let keys = KeyTableFacts(builder: builder, live: live, others: others)
        let (use, people) = (UseFacts(builder: builder, findings: findings), PeopleFacts(builder: builder))
        let hsmTokens = HSMTokenFacts(builder: builder)
        return .facts([
            "format": 6, "since": builder.period.since, "until": builder.period.until, "madeAt": madeAt,
            "version": version,
            "verifier": verifier.map { verifier in
                JSONValue.facts([
                    "folder": verifier.folder,
                    "files": verifier.files.map {
                        .facts(["file": $0.name, "sha256": $0.digest.hex])
                    } as [JSONValue],
                ])
            },
            "given": JSONValue.facts(["components": !builder.listed.isEmpty]),
            "export": JSONValue.facts([
                "file": export.file, "bytes": export.bytes, "sha256": export.digest.hex, "page": export.page,
                "keys": export.keyFiles, "pinning": export.pinning,
            ]),
            "verdict": record.verdict,
            "thresholds": JSONValue.facts([
                "replays": RefusalsByCaller.replaysOfDay, "factor": CallerAnomaly.factor, "weeks": CallerAnomaly.weeks,
                "least": CallerAnomaly.least, "refusals": RefusalsByCaller.refusalsOfHour,
                "outage": RecordIncidents.outageLength, "earliest": Int(UseMatching.earliest / 1000),
                "latest": Int(UseMatching.latest / 1000),
            ]),
            "findings": record.findings(figures), "omitted": facts(omitted: omitted),
            "nodes": record.nodes(figures), "moments": record.moments, "auditKeys": record.auditKeys,
            "pins": record.pins,
            "live": live.map(systemFacts.live), "tokens": hsmTokens.hsmTokens, "versions": systemFacts.versions,
            "downtimes": record.downtimes,
            "unlisted": !builder.unlistedPrograms.isEmpty, "programs": systemFacts.programs,
            "configurations": systemFacts.configurations,
            "credentials": systemFacts.credentials, "changes": systemFacts.changes,
            "states": keys.states, "keys": keys.keys(figures),
            "attributes": hsmTokens.attributes, "others": keys.keysOfOtherLedgers,
            "differences": live == nil ? nil : keys.differences,
            "charts": use.charts, "hours": use.hours, "uses": use.pairs(figures),
            "reasons": use.reasons(figures), "refusals": use.refusals, "replays": use.replays,
            "tokenUses": use.tokenUses,
            "rules": people.rules, "people": people.people(figures),
            "decisions": people.decisions, "endsOfApprovals": people.endsOfApprovals, "approvals": people.approvals,
            "acts": people.acts, "readings": people.readings(figures), "exports": people.exports,
            "settings": systemFacts.settings, "figures": figures.all,
        ])
    }

    /// The lists that the page shortens, because they are longer than the limits in the article ReportFigures.
    private func facts(omitted findings: Int) -> [JSONValue]? {
        let (system, acts) = (builder.system, builder.acts)
        let counts = [
            ("findings", findings), ("archives", system.omittedArchives),
            (
                "stops, or changes of version, program or configuration file",
                system.nodes.values.reduce(0) { $0 + $1.omitted }
            ),
            ("changes of settings", system.omittedChanges), ("steps of further keys", builder.stepsNotKept),
            ("signing requests and certificates", builder.keys.values.reduce(0) { $0 + $1.omitted }),
            ("records of keys' attributes", builder.hsmTokens.omitted),
            ("uses of further pairs of key and caller, counted together", builder.uses.furtherUses),
            ("uses of further keys or callers, in no chart and no habit", builder.uses.unchartedUses),
            ("refused requests of further callers", builder.refusals.omitted),
            ("requests for a second person", acts.omittedApprovals), ("administrative acts", acts.omitted),
            ("exports", acts.omittedExports),
            ("replays outside of bursts", max(0, builder.refusals.singleReplays.count - UseFacts.maximumReplays)),
        ].filter { $0.1 > 0 }
        return counts.isEmpty ? nil : counts.map { .facts(["what": $0.0, "count": $0.1]) }
    }
}
