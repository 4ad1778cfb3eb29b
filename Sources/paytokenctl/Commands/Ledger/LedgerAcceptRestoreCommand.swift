import ArgumentParser
import DaemonAPI

struct LedgerAcceptRestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accept-restore",
        abstract: "Takes a ledger that is older than the token remembers knowingly into service.",
        discussion: """
            The token remembers the newest checkpoint of the record. A ledger that is new, ends before it, or has \
            another record there, has forgotten something: released transactions, which could then be released again; \
            keys that were suspended or compromised, which would decrypt again; records, which the auditor will miss. \
            So paytokend does not start with it. Look for the right ledger first. (NSS softokn remembers nothing: an \
            older ledger is not noticed there, only by audit verify with --head.)

            When there is none, start paytokend with --await-restore, which releases nothing, and accept. It is \
            recorded with the reason, where the ledger ends and what the token remembered. Then set the states of \
            suspended and compromised keys again.

              paytokend --config /etc/paytokend/paytokend.yaml --await-restore
              paytokenctl ledger accept-restore --reason "disk lost, backup of 31 January"
            """)

    @Option(help: ArgumentHelp("Why, for the record; at most 200 characters.", valueName: "text"))
    var reason: String?

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        if let reason, reason.isEmpty || reason.unicodeScalars.count > 200 {
            throw ValidationError("--reason has 1 to 200 characters.")
        }
    }

    func run() async throws {
        let (answer, bytes) = try await socket.connection.post(
            "/v1/ledger/accept-restore", LedgerAcceptanceRequest(reason: reason ?? "none was given"),
            for: AcceptRestoreAnswer.self)
        switch format.output {
        case .json: try Console.output(json: bytes)
        case .table:
            try Console.output(
                Table(pairs: [
                    ("Status", answer.status), ("Ledger ended at record", String(answer.ledgerSequence)),
                    ("Token remembered record", answer.tokenSequence.map(String.init) ?? "-"),
                ]).text)
        }
    }
}
