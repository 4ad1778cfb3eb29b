import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import Ledger
import Locks
import OfflineLedger
import ProductVersion
import StrictJSON

struct LedgerMoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "move",
        abstract: "Moves a stopped host's ledger from its file into PostgreSQL.",
        discussion: """
            For a host that will share its ledger with others. Stop its daemon, try the move with --dry-run, repeat it \
            without, and start the daemon with the database in ledger.url and the node's name, which the command \
            prints, in ledger.node:

              systemctl stop paytokend
              sudo -u paytokend paytokenctl ledger move --dry-run --ask-password \\
                  --from sqlite:/var/lib/paytokend/ledger.sqlite \\
                  --to \\
                  "postgresql://ledger_owner@db1,db2/paytokend?sslmode=verify-full"

            sslrootcert=FILE in the URL names the root certificate of the server's certificate.

            The tables must exist (paytokenctl ledger create); the account is the one that owns them. The record \
            continues unbroken under the same audit key. If the database has the same transaction claimed, it stays \
            claimed, and neither caller can repeat it. If it has the same key in another state, the stricter state is \
            kept. Of the times before which payment tokens are refused, the later ones are kept.

            If the move is interrupted, repeat it: it continues from there. The file serves until just before the \
            database accepts it, and then never again; it stays where it is, readable. --give-up lets the file serve \
            again, as long as the database has not accepted it.

            Exit status: 0 done; 1 the two ledgers cannot be merged, or the record is not intact; 66 no such file; 75 \
            the daemon still runs, the server is unavailable, or the move was interrupted: repeat it; 77 the file \
            belongs to another account; 78 the login, TLS, the schema, or a right that the account lacks.
            """)

    @Option(help: ArgumentHelp("The file, as in the stopped daemon's ledger.url: sqlite:PATH.", valueName: "url"))
    var from: String

    @Option(help: ArgumentHelp("The database, with the account that owns the tables: postgresql://…", valueName: "url"))
    var to: String

    @Flag(help: "Lets the file serve again, unless the database has accepted it.")
    var giveUp = false

    @OptionGroup var account: OwnerAccountOptions
    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions

    func validate() throws {
        _ = try OwnerAccountOptions.url(to)
        guard Self.path(from) != nil else { throw ValidationError("--from is sqlite: and a path.") }
        guard !giveUp || !dryRun.isDryRun else { throw ValidationError("--give-up and --dry-run exclude each other.") }
    }

    /// The absolute path in a URL. sqlite:///path is sqlite:/path with an empty host, as in the configuration.
    static func path(_ url: String) -> String? {
        guard url.hasPrefix("sqlite:") else { return nil }
        let path = url.hasPrefix("sqlite:///") ? url.dropFirst(9) : url.dropFirst(7)
        guard !path.isEmpty, !path.hasPrefix("//"), !path.hasSuffix("/") else { return nil }
        return URL(filePath: String(path)).standardizedFileURL.path(percentEncoded: false)
    }

    func run() async throws {
        let url = try OwnerAccountOptions.url(to)
        let path = Self.path(from) ?? from
        let report = try await account.withPassword(for: url) { file in
            try await perform(
                LedgerMove(path: path, url: url, passwordFile: file, version: ProductVersion.current))
        }
        OwnerAccountOptions.warn(of: report.insecureSettings)
        try format.show(Self.json(report), Self.text(report))
        switch report.status {
        case .moved: Console.error(NextStep.startOnDatabase(node: report.node, server: report.server))
        case .possible: dryRun.report("the ledger can be moved")
        case .givenUp: break
        }
    }

    private func perform(_ move: LedgerMove) async throws -> LedgerMoveReport {
        let line = Mutex(ProgressLine())
        defer { line.withLock { $0.clear() } }
        let show: LedgerMove.Progress = { progress in
            line.withLock { if $0.isDue { $0.show(Self.sentence(progress)) } }
        }
        if giveUp { return try await move.giveUp() }
        return dryRun.isDryRun ? try await move.preview(show) : try await move.carryOut(show)
    }

    private static func sentence(_ progress: LedgerMoveProgress) -> String {
        switch progress {
        case .verified(let records, let all): "\(records.grouped) of \(all.grouped) records verified"
        case .copied(let records, let all): "\(records.grouped) of \(all.grouped) records copied"
        case .claims(let claims, let all): "\(claims.grouped) of \(all.grouped) released transactions copied"
        }
    }

    private static func json(_ report: LedgerMoveReport) -> [UInt8] {
        JSONWriter.object { json in
            json.member("status", report.status.rawValue)
            json.member("from", report.path)
            json.member("server", report.server)
            json.member("node", report.node)
            guard report.status != .givenUp else { return }
            json.member("records", report.records)
            json.member("checkpoints", report.checkpoints)
            json.member("claims", report.claims)
            json.member("claimsInBoth", report.claimsInBoth)
            json.member("keys", report.keys)
            json.member("differingKeys", objects: report.differingKeys) { key, json in
                json.member("publicKeyHash", Base64.encode(key.publicKeyHash.bytes))
                json.member("inFile", key.inFile.rawValue)
                json.member("inDatabase", key.inDatabase.rawValue)
                json.member("becomes", key.becomes.rawValue)
            }
            json.member("approvals", report.approvals)
            json.member("forgottenBefore", report.forgottenBefore.map(RFC3339.string))
            json.member("restoreFence", report.restoreFence.map(RFC3339.string))
        }
    }

    private static func text(_ report: LedgerMoveReport) -> String {
        var pairs = [
            ("Status", report.status.rawValue), ("From", report.path), ("Server", report.server), ("Node", report.node),
        ]
        guard report.status != .givenUp else { return Table(pairs: pairs).text }
        pairs += [
            ("Records", report.records.grouped), ("Checkpoints", report.checkpoints.grouped),
            ("Released transactions", report.claims.grouped), ("Released on both sides", report.claimsInBoth.grouped),
            ("Keys", String(report.keys)),
        ]
        pairs += report.differingKeys.map { key in
            (
                "Key \(Hexadecimal.encode(key.publicKeyHash.bytes.prefix(4)))",
                "\(key.inFile.rawValue) in the file, \(key.inDatabase.rawValue) in the database: \(key.becomes.rawValue)"
            )
        }
        pairs += [
            ("Approvals", String(report.approvals)),
            ("Refuses unclaimed payment tokens signed before", report.forgottenBefore.map(RFC3339.string) ?? "-"),
            ("And, after a restore, before", report.restoreFence.map(RFC3339.string) ?? "-"),
        ]
        return Table(pairs: pairs).text
    }
}
