import ArgumentParser
import AuditChain
import CommandOutput
import Encodings
import Foundation
import Ledger
import OfflineLedger
import StrictJSON

struct LedgerRestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Replaces a stopped daemon's ledger with a copy that ledger backup made.",
        discussion: """
            The copy is verified as a whole: it must not be damaged, its record must be an unbroken chain from the \
            first line to the last, with signed checkpoints, and no key may be permitted more than its record says. \
            Claims, cut-offs and the records after the last checkpoint are only as reliable as the copy: --sha256, \
            with the digest that ledger backup printed and recorded (ledger_backup), shows that the copy is unchanged. \
            Requests for a second person end. A copy of an older version's ledger is brought up to date. The previous \
            ledger is moved aside, never overwritten. The HSM token's directory and the PIN are in no copy: restore \
            your own copies first.

              systemctl stop paytokend
              sudo -u paytokend paytokenctl ledger restore - \\
                  < /backup/ledger-2026-01-31.sqlite
              sudo -u paytokend paytokend --await-restore \\
                  --config /etc/paytokend/paytokend.yaml &
              paytokenctl ledger accept-restore --reason "disk lost, backup of 31 January"

            The copy does not contain releases after it was made. So the daemon releases nothing from a restored \
            ledger until it is accepted, no matter what the HSM token remembers. From then on it refuses every payment \
            token that was signed before the acceptance, or within the widest signing-time window after it.

            Restore a ledger in PostgreSQL with PostgreSQL's own tools.

            Exit status: 0 done; 1 the copy is damaged, is not a ledger, or its record is not intact; 66 there is no \
            such file; 75 the daemon still runs, or the disk is full; 77 the directory belongs to another account: use \
            sudo -u.
            """)

    @Argument(help: ArgumentHelp("The copy; - for standard input.", valueName: "file"), completion: .file())
    var copy: String

    @Option(help: ArgumentHelp("The ledger's file, as in ledger.url: sqlite:PATH.", valueName: "url"))
    var to = "sqlite:/var/lib/paytokend/ledger.sqlite"

    @Option(help: ArgumentHelp("The copy's SHA-256, as ledger backup printed it.", valueName: "hex"))
    var sha256: String?

    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions

    func validate() throws {
        guard LedgerMoveCommand.path(to) != nil else { throw ValidationError("--to is sqlite: and a path.") }
    }

    func run() async throws {
        let file: FileHandle
        if copy == "-" {
            file = .standardInput
        } else {
            do {
                file = try FileHandle(forReadingFrom: URL(filePath: copy))
            } catch {
                throw CommandFailure(
                    .unreadable,
                    "\(copy) does not exist, or this user may not read it; then give it on standard input, with - .")
            }
        }
        let restore = LedgerFileRestore(
            copy: file, log: try log(), named: InputFile.name(copy), expected: try sha256.map(Self.digest),
            to: LedgerMoveCommand.path(to) ?? to)
        let report = try restore.carryOut(changes: !dryRun.isDryRun)
        try format.show(Self.json(report, isDryRun: dryRun.isDryRun), Self.text(report))
        dryRun.report("the copy is intact and can be restored")
        if !dryRun.isDryRun { Console.error(NextStep.acceptRestore) }
    }

    /// The write-ahead log next to a previous ledger, which contains the newest transactions after a crash.
    private func log() throws -> FileHandle? {
        guard copy != "-" else { return nil }
        for (suffix, isPlayed) in [("-journal", false), ("-wal", true)] {
            let path = copy + suffix
            guard let size = try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int, size > 0 else {
                continue
            }
            guard isPlayed, let log = FileHandle(forReadingAtPath: path) else {
                throw CommandFailure(
                    .no, "\(path) belongs to \(copy), which is not complete without it, and it cannot be read with it.")
            }
            return log
        }
        return nil
    }

    private static func digest(_ text: String) throws -> AuditDigest {
        guard let digest = AuditDigest(hex: text.lowercased()) else {
            throw CommandFailure(.usage, "--sha256 takes 64 hexadecimal digits.")
        }
        return digest
    }

    private static func json(_ report: LedgerFileRestore.Report, isDryRun: Bool) -> [UInt8] {
        JSONWriter.object { json in
            json.member("status", isDryRun ? "unchanged" : "restored")
            json.member("ledger", report.path)
            json.member("node", report.node)
            json.member("records", report.records)
            json.member("claims", report.claims)
            json.member("schema", report.copySchema)
            json.member("sha256", report.digest.hex)
            json.member("unsealed", report.unsealed)
            json.member("newestRelease", report.newestRelease.map(RFC3339.string))
            json.member("setAside", report.setAside)
        }
    }

    private static func text(_ report: LedgerFileRestore.Report) -> String {
        Table(pairs: [
            ("Ledger", report.path), ("Node", report.node), ("Records", report.records.grouped),
            ("Released transactions", report.claims.grouped),
            ("Newest release", report.newestRelease.map(RFC3339.string) ?? "-"),
            ("After the last seal", "\(report.unsealed.grouped) unsigned records"),
            ("SHA-256", report.digest.hex),
            ("Former ledger", report.setAside ?? "-"),
        ]).text
    }
}
