import ArgumentParser
import AuditChain
import AuditReport
import CommandOutput
import Crypto
import DaemonAPI
import Encodings
import Foundation
import ProductVersion
import StrictJSON

struct AuditReportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Makes one page for an assessor: keys, their use, people, and the proof.",
        discussion: """
            A self-contained HTML file, to be read on a screen or printed. It begins with the verdict on the record \
            and the commands that repeat it, followed by the system, the inventory of keys, their use, people, and \
            what it does not show. Each part names the requirements of PCI DSS 4.0.1 that it is evidence for.

            By default the record of all nodes is exported and verified first, and the daemon returns its state and its \
            keys' states:

              paytokenctl audit report --out report.html \\
                  --since 2025-11-01 --until 2026-10-31

            makes three files: report.html, report.jsonl (the export) and report.pem (the public key of the asked \
            node's checkpoints). Give the assessor the first two, and the key over another channel. This finds a page that was \
            changed, and counts its facts again from the export, without this program:

              scripts/verify-audit --report report.html report.jsonl \\
                  NODE=report.pem --pinned-by NODE --head heads.jsonl

            heads.jsonl has heads that were kept elsewhere (audit head), which show that the end was not cut off. \
            verify-audit counts an HSM token's log of uses again if --token-uses names it, too, and says which it did not get.

            Old records that left the ledger (ledger.retain_records) are read from their files, those of all nodes, \
            the oldest first, and precede the others in report.jsonl:

              paytokenctl audit report --out report.html \\
                  --archive host-1.1-204800.jsonl

            If an HSM token has a counter or log of its keys' uses, the daemon returns the output of its use_log, or \
            --token-uses names a file with it. The page shows the uses that are in no record:

              paytokenctl audit report --out report.html \\
                  --token-uses uses.jsonl

            The daemon records the page's SHA-256, its period and the last record of each node, with the person who made \
            it (audit_report). The page itself cannot contain its own SHA-256.

            With an existing export no daemon is asked, and nothing is recorded:

              paytokenctl audit report --out report.html \\
                  --export record.jsonl --public-key key.pem

            Without --since the page covers the year before --until; without --until, up to now. All records are read, \
            since a key's state depends on its whole history.

            Exit status: 0 the record is intact; 1 the page was made, and says that the record is broken or unsealed; 66 a file \
            cannot be used.
            """)

    @Option(help: ArgumentHelp("A new file for the page.", valueName: "file"), completion: .file())
    var out: String

    @OptionGroup var period: PeriodOptions

    @OptionGroup var given: ExportOptions

    @Option(
        help: ArgumentHelp(
            "Another ledger's keys, as key list --output json prints them: none may be in both. May be repeated.",
            valueName: "file"), completion: .file())
    var otherKeys: [String] = []

    @Option(
        help: ArgumentHelp(
            "An HSM token's own count or log of its keys' uses, in the format of the article Assessing. May be repeated.",
            valueName: "file"), completion: .file())
    var tokenUses: [String] = []

    @Option(
        help: ArgumentHelp(
            "A package's list of components, sbom.cdx.json, which has its programs' SHA-256. May be repeated, once for each version.",
            valueName: "file"), completion: .file())
    var sbom: [String] = []

    @Option(
        help: ArgumentHelp(
            "The folder with verify-audit, recount-report and the page's template, whose SHA-256 the page names.",
            valueName: "folder"), completion: .directory)
    var verifier = "/usr/share/doc/paytokend/examples"

    @OptionGroup var archives: ArchiveOption

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        guard given.export != nil else {
            if !given.publicKey.isEmpty || given.pinnedBy != nil {
                throw ValidationError("--public-key and --pinned-by need --export.")
            }
            return
        }
        if !archives.archive.isEmpty {
            throw ValidationError(
                "--archive is for a daemon's record. For an export, put the archives before it in one file: cat ARCHIVE … EXPORT."
            )
        }
        if given.export == "-" {
            throw ValidationError("--export is read several times, so it cannot be standard input.")
        }
    }

    func run() async throws {
        let now = Date()
        let until = period.until?.end ?? AuditTime(now)
        let since = period.since?.time ?? AuditTime(until.date.addingTimeInterval(-365 * 86_400))
        guard let period = ReportPeriod(since: since, until: until) else {
            throw CommandFailure(.usage, "--until \(until.text) is not after --since \(since.text).")
        }
        let others = try otherKeys.map(Self.otherLedger)
        let listed = try sbom.map(Self.listedPrograms)
        let page = try NewFile(out)
        let source = try await source(period)
        let tokenUses = try TokenUseFiles.read(self.tokenUses + source.tokenUses)
        let verdict = try source.verify()
        var builder = ReportBuilder(period: period, tokenUses: tokenUses, listed: listed)
        try Self.read(source.export, "1 of 2", take: { builder.survey(line: $0) })
        var digest = SHA256()
        try Self.read(
            source.export, "2 of 2", readBlock: { digest.update(data: $0) }, take: { builder.count(line: $0) })
        if builder.beginThirdPass() {
            try Self.read(source.export, "once more", take: { builder.search(line: $0) })
        }
        guard let sum = AuditDigest(bytes: Array(digest.finalize())) else {
            throw CommandFailure(.defect, "internal_error: the export has no digest.")
        }
        let exported = VerifiedExport(
            file: nameForPage(source.export), bytes: InputFile.size(source.export) ?? 0, digest: sum,
            keyFiles: source.keyFiles, pinning: source.pinning, page: Self.name(out), verdict: verdict)
        let bytes = ReportPage(
            builder: builder, export: exported, live: source.live, others: others, verifier: installedVerifier,
            madeAt: AuditTime(now), version: ProductVersion.current
        ).bytes
        try page.write(bytes)
        try page.publish()
        let audit = source.live == nil ? nil : await recorded(AuditDigest.of(bytes), period, verdict)
        try tell(
            exported, audit: audit, unexplained: tokenUses.isEmpty ? nil : builder.reconciliation.unexplained,
            unlisted: listed.isEmpty ? nil : builder.unlistedPrograms)
    }

    /// Has the daemon record the page. A page that could not be recorded is still a page, so this only prints the reason.
    private func recorded(
        _ digest: AuditDigest, _ period: ReportPeriod, _ verdict: NodesVerdict
    ) async -> AuditReference? {
        let nodes = verdict.nodes.compactMap { node in
            node.range.map { AuditReportRequest.Node(node: node.node.name, lastSequence: $0.last) }
        }
        do {
            return try await socket.connection.post(
                "/v1/audit/reports",
                AuditReportRequest(
                    pageSha256: digest.hex, since: period.since.text, until: period.until.text,
                    nodes: Array(nodes.prefix(AuditReportRequest.maximumElements))),
                for: AuditReportAnswer.self
            ).answer.audit
        } catch {
            Console.error(
                "The page was made, but the daemon did not record it: "
                    + ((error as? CommandFailure)?.message ?? "it gave no reason."))
            return nil
        }
    }

    // MARK: The export

    /// An export, with the keys and heads for its verification.
    private struct Source {
        let export: String
        /// The key files as arguments of scripts/verify-audit, as ``nameForPage(_:)`` names them.
        let keyFiles: [String]
        let trusted: TrustedKeys
        let heads: [SignedCheckpoint]
        /// The node whose record says which keys of other nodes are trusted.
        let pinning: AuditNode?
        let live: LiveState?
        /// The paths of the files with the HSM tokens' own counts of their keys' uses.
        var tokenUses: [String] = []

        func verify() throws -> NodesVerdict {
            let report = try NodesVerification(trusted: trusted, heads: heads, wanted: .all)
                .report(export: export, pinnedBy: pinning)
            guard let verdict = report.verdict else {
                throw CommandFailure(.defect, "internal_error: the export was not verified.")
            }
            return verdict
        }
    }

    private func source(_ period: ReportPeriod) async throws -> Source {
        let heads = try VerificationInputs.heads(given.head)
        guard let export = given.export else { return try await exported(comparing: heads, period) }
        return Source(
            export: export,
            keyFiles: given.publicKey.map { key in (key.node.map { "\($0.name)=" } ?? "") + nameForPage(key.file) },
            trusted: try VerificationInputs.trusted(given.publicKey), heads: heads, pinning: given.pinnedBy?.one,
            live: nil)
    }

    /// Exports the records of all nodes, and the key of the queried node, into files next to the report.
    private func exported(
        comparing heads: [SignedCheckpoint], _ period: ReportPeriod
    ) async throws -> Source {
        let connection = socket.connection
        let stem = out.hasSuffix(".html") ? String(out.dropLast(5)) : out
        let (records, keyFile) = (stem + ".jsonl", stem + ".pem")
        let (recordsFile, keys) = (try NewFile(records), try NewFile(keyFile, mode: 0o644))
        // Records added during the export may be missing from it, so the HSM tokens are asked only for earlier uses.
        let begun = AuditTime(Date())
        // Get the remembered checkpoint before the records, so that the records reach at least to that checkpoint.
        let (known, own, node) = try await VerificationInputs.nodes(connection)
        let ownKeys = try VerificationInputs.keys(own.keys)
        let remembered = try VerificationInputs.head(known)
        try archives.files.copy(to: recordsFile)
        try await connection.stream(.get("/v1/audit/export?node=all&format=jsonl&purpose=export"))
            .copy(to: recordsFile, said: "exported")
        try keys.write(Array(ownKeys.map(\.pem).joined().utf8))
        let status = try await connection.send(.get("/v1/status"), for: StatusAnswer.self).answer
        let live = LiveState(
            askedAt: AuditTime(Date()), status: status, keys: try await connection.allKeys().keys)
        let tokenUses = try await TokenUseFiles.ask(
            connection, for: live.status.tokens.map(\.name), from: period.since, until: min(period.until, begun),
            beside: stem)
        try recordsFile.publish()
        try keys.publish()
        var trusted = TrustedKeys()
        trusted.trust(own: CheckpointKeys(ownKeys), of: node)
        return Source(
            export: records, keyFiles: ["\(node.name)=\(nameForPage(keyFile))"], trusted: trusted,
            heads: heads + remembered, pinning: node, live: live, tokenUses: tokenUses)
    }

    private static func otherLedger(_ file: String) throws -> OtherLedger {
        // The list of a hundred thousand keys has 50 MB.
        let bytes = try InputFile.read(file, atMost: 1 << 27)
        guard let items = (try? JSONValue(parsing: bytes))?.arrayValue else {
            throw CommandFailure(
                .unreadable,
                "\(InputFile.name(file)) is not a list of keys: paytokenctl key list --output json prints one.")
        }
        let keys = items.compactMap { $0.objectValue?["publicKeyHash"]?.stringValue }
        guard keys.count == items.count else {
            throw CommandFailure(.unreadable, "\(InputFile.name(file)) has keys without a publicKeyHash.")
        }
        return OtherLedger(name: name(file), keys: Set(keys))
    }

    private static func listedPrograms(_ file: String) throws -> ListedPrograms {
        guard let listed = ListedPrograms(file: try InputFile.read(file, atMost: 1 << 24)) else {
            throw CommandFailure(
                .unreadable,
                "\(InputFile.name(file)) is not the list of components of a paytokend package: it is installed as "
                    + "/usr/share/doc/paytokend/sbom.cdx.json.")
        }
        return listed
    }

    /// The files that check the page; nil unless the folder has all of them.
    private var installedVerifier: InstalledVerifier? {
        let files = InstalledVerifier.names.compactMap { name in
            (try? InputFile.read("\(verifier)/\(name)", atMost: 1 << 24)).map { (name, AuditDigest.of($0)) }
        }
        return files.count == InstalledVerifier.names.count ? InstalledVerifier(folder: verifier, files: files) : nil
    }

    // MARK: Reading it

    private static func read(
        _ export: String, _ which: String, readBlock: ([UInt8]) -> Void = { _ in },
        take: (_ line: [UInt8]) -> Void
    ) throws {
        let size = max(1, InputFile.size(export) ?? 1)
        let end = try InputFile.forEachLine(
            of: export, progress: { "counting, reading \(which): \(min(100, $0 * 100 / size)) %" },
            readBlock: readBlock,
            take: take)
        guard !end.isOverlong else {
            throw CommandFailure(
                .unreadable, "\(export) has a line that is longer than any record. It is not an export.")
        }
    }

    private static func name(_ path: String) -> String { URL(filePath: path).lastPathComponent }

    /// Returns the path of a file from the page's folder, or only its name if the file is elsewhere.
    private func nameForPage(_ path: String) -> String {
        let folder = URL(filePath: out).deletingLastPathComponent().standardizedFileURL.path + "/"
        let file = URL(filePath: path).standardizedFileURL.path
        return file.hasPrefix(folder) ? String(file.dropFirst(folder.count)) : Self.name(path)
    }

    // MARK: Saying it

    /// - Parameters:
    ///   - unexplained: the number of uses that HSM tokens counted but no record explains; nil if no count was given.
    ///   - unlisted: the recorded programs that no list of components has; nil if no list was given.
    private func tell(
        _ export: VerifiedExport, audit: AuditReference?, unexplained: Int?, unlisted: [SystemHistory.Programs]?
    ) throws {
        let json = JSONWriter.object { json in
            json.member("verdict", export.isProved ? "intact" : "not_proved")
            json.member("report", out)
            json.member("sha256", export.digest.hex)
            if let audit {
                json.member("audit") { json in
                    json.member("node", audit.node)
                    json.member("sequence", audit.sequence)
                }
            }
            json.member("usesInNoRecord", unexplained)
            json.member("unlistedPrograms", unlisted?.count)
        }
        try format.show(
            json,
            Table(
                pairs: [
                    ("Page", out), ("Export", export.file), ("Export's SHA-256", export.digest.hex),
                    ("Verdict", export.isProved ? "intact" : "not proved"),
                ] + (audit.map { [("Recorded as", "\($0.node) \($0.sequence)")] } ?? [])
                    + (unexplained.map { [("Uses in no record", $0.grouped)] } ?? [])
                    + (unlisted.map { [("Programs", $0.isEmpty ? "as listed" : "not as listed")] } ?? [])
            ).text)
        guard export.isProved else {
            throw CommandFailure(
                .no,
                "chain_unproved: the page says that the record is not intact, or not sealed to its end: \(export.verdict.description)"
            )
        }
        if let first = unlisted?.first {
            throw CommandFailure(
                .no,
                "programs_not_listed: from record \(first.place.text) on, a program is not one of those that the given lists "
                    + "of components have. The page shows which.")
        }
    }
}
