import ArgumentParser
import CommandOutput
import Encodings
import Foundation
import Ledger
import StrictJSON

struct LedgerRestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Puts a copy that ledger backup made in the place of a stopped daemon's ledger.",
        discussion: """
            The copy is verified as a whole: that it is not damaged, and that its record follows from the first line to the \
            last, with signed checkpoints. A copy of an older version's ledger is brought up to date. The ledger that was there is \
            moved aside, never overwritten. The HSM token's directory and the PIN are in no copy: put your own copies back first.

              systemctl stop paytokend
              sudo -u paytokend paytokenctl ledger restore - < /backup/ledger-2026-01-31.sqlite
              sudo -u paytokend paytokend --config /etc/paytokend/paytokend.yaml --await-restore &
              paytokenctl ledger accept-restore --reason "disk lost, backup of 31 January"

            What was released after the copy was made, the copy has forgotten. So nothing is released from a restored ledger \
            before somebody accepts it, whatever the HSM token remembers; and from then on every payment token is refused that \
            was signed before the acceptance, or within the widest signing-time window after it.

            A ledger in PostgreSQL is restored by PostgreSQL's own tools.

            Exit status: 0 done; 1 the copy is damaged, no ledger, or its record is not whole; 66 there is no such file; 75 the \
            daemon still runs, or the disk is full; 77 the directory is another account's: use sudo -u.
            """)

    @Argument(help: ArgumentHelp("The copy; - for standard input.", valueName: "file"), completion: .file())
    var copy: String

    @Option(help: ArgumentHelp("The ledger's place, as in ledger.url: sqlite:PATH.", valueName: "url"))
    var to = "sqlite:/var/lib/paytokend/ledger.sqlite"

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
            copy: file, named: InputFile.name(copy), to: LedgerMoveCommand.path(to) ?? to)
        let report: LedgerFileRestore.Report
        do throws(LedgerFileRestoreError) {
            report = try restore.carryOut(changes: !dryRun.isDryRun)
        } catch {
            throw CommandFailure(restoring: error)
        }
        try format.show(Self.json(report, isDryRun: dryRun.isDryRun), Self.text(report))
        dryRun.report("the copy is whole and can be restored")
        if !dryRun.isDryRun { Console.error(NextStep.acceptRestore) }
    }

    private static func json(_ report: LedgerFileRestore.Report, isDryRun: Bool) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.member("status", isDryRun ? "unchanged" : "restored")
        json.member("ledger", report.path)
        json.member("node", report.node)
        json.member("records", report.records)
        json.member("claims", report.claims)
        json.member("schema", report.copySchema)
        json.member("newestRelease", report.newestRelease.map(RFC3339.string))
        json.member("setAside", report.setAside)
        json.endObject()
        return json.bytes
    }

    private static func text(_ report: LedgerFileRestore.Report) -> String {
        Table(pairs: [
            ("Ledger", report.path), ("Node", report.node), ("Records", report.records.grouped),
            ("Released transactions", report.claims.grouped),
            ("Newest release", report.newestRelease.map(RFC3339.string) ?? "-"),
            ("Former ledger", report.setAside ?? "-"),
        ]).text
    }
}

extension CommandFailure {
    fileprivate init(restoring error: LedgerFileRestoreError) {
        switch error {
        case .file(let reason): self.init(owner: reason)
        case .broken: self.init(.no, error.description)
        case .brokenOff: self.init(.tryAgainLater, error.description)
        }
    }
}
