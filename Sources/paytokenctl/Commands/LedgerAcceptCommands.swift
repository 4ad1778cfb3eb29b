import ArgumentParser
import DaemonAPI
import Encodings
import Foundation

struct LedgerAcceptClockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accept-clock",
        abstract: "Takes back what a wrong clock made the ledger believe; needs a second person.",
        discussion: """
            For when paytokenctl status says that the clock is behind the ledger, and the clock is right: it was ahead \
            before. Set the clock first if it is not; a clock that is behind needs nothing else.

            While it was ahead the ledger may have forgotten claims, and then every token is refused as a replay. Which \
            of them were released nobody can tell any more. So tokens signed before the acceptance, or within the widest \
            signing-time window after it, are refused for good, and later ones are served: payments go on after some \
            minutes.

              paytokenctl ledger accept-clock --reason "clock was ahead" --dry-run
              paytokenctl ledger accept-clock --reason "clock was ahead"
            """)

    @Option(help: ArgumentHelp("Why, for the record; at most 200 characters.", valueName: "text"))
    var reason: String

    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        guard (1...200).contains(reason.unicodeScalars.count) else {
            throw ValidationError("--reason has 1 to 200 characters.")
        }
    }

    func run() async throws {
        let (answer, bytes) = try await socket.connection.post(
            dryRun.target("/v1/ledger/accept-clock"), LedgerAcceptanceRequest(reason: reason),
            for: AcceptClockAnswer.self)
        switch format.output {
        case .json: try Console.output(json: bytes)
        case .table:
            func text(_ date: Date?) -> String { date.map(RFC3339.string) ?? "-" }
            try Console.output(
                Table(pairs: [
                    ("Status", answer.status), ("Clock", text(answer.clock)),
                    ("Newest record was", text(answer.newestRecord)),
                    ("Refused tokens signed before", text(answer.forgottenBefore)),
                    ("Refuses those signed before", text(answer.servedFrom)),
                ]).text)
        }
        dryRun.report("the clock can be accepted")
    }
}

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
