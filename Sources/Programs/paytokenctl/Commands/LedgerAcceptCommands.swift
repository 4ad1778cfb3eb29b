import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation

struct LedgerAcceptClockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accept-clock",
        abstract: "Reverses the effects of a wrong clock on the ledger; needs a second person.",
        discussion: """
            Use this if paytokenctl status reports that the clock is behind the ledger although the clock is right: it \
            was ahead before. If the clock is wrong, set it; nothing else is needed then.

            While the clock was ahead, the ledger may have forgotten which transactions were released; then every \
            payment token is refused as a replay, since the ledger cannot tell. After the acceptance, payment tokens \
            that were signed before it, or within the widest signing-time window after it, stay refused, and later \
            ones are served: payments continue after some minutes.

              paytokenctl ledger accept-clock --reason "clock was ahead" --dry-run
              paytokenctl ledger accept-clock --reason "clock was ahead"
            """)

    @OptionGroup var why: ReasonOption
    @OptionGroup var change: ChangeOptions

    func run() async throws {
        func text(_ date: Date?) -> String { date.map(RFC3339.string) ?? "-" }
        try await change.post(
            "/v1/ledger/accept-clock", LedgerAcceptanceRequest(reason: why.reason), for: AcceptClockAnswer.self,
            dryRunSays: "the clock can be accepted"
        ) { answer in
            Table(pairs: [
                ("Status", answer.status), ("Clock", text(answer.clock)),
                ("Newest record was", text(answer.newestRecord)),
                ("Refused payment tokens signed before", text(answer.forgottenBefore)),
                ("Refuses those signed before", text(answer.servedFrom)),
            ]).text
        }
    }
}

struct LedgerAcceptRestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accept-restore",
        abstract: "Accepts a ledger that is older than the HSM token remembers.",
        discussion: """
            The HSM token remembers the newest checkpoint of the record. A ledger that is new, ends before that \
            checkpoint, or has another record in its place, has lost something: released transactions, which could \
            then be released again; the states of suspended or compromised keys, which would then decrypt again; \
            records, which the auditor will miss. So paytokend does not start with it. Find the right ledger first. \
            (NSS softokn remembers nothing: there an older ledger is noticed only by audit verify with --head.)

            If there is no other ledger, start paytokend with --await-restore, which releases nothing, and accept it. \
            The reason, the ledger's last record and the record that the HSM token remembered are recorded. From then \
            on every payment token is refused that was signed before the acceptance, or within the widest signing-time \
            window after it, since it may have been released: payments continue after some minutes. While a window is \
            off, no ledger can be accepted. Then set the states of suspended and compromised keys again.

            With a ledger in PostgreSQL one node's finding stops all hosts, and paytokenctl status shows each node's \
            finding. One acceptance, on any host, covers all findings until then.

            A process that was lost together with its ledger may have released something in its last minute that \
            neither a backup nor the HSM token knows. Then there is no finding; --without-finding sets the fence all \
            the same. Release nothing before.

              paytokend --config /etc/paytokend/paytokend.yaml --await-restore
              paytokenctl ledger accept-restore --dry-run
              paytokenctl ledger accept-restore --reason "disk lost, backup of 31 January"
            """)

    @Option(help: ReasonOption.help)
    var reason: String?

    @Flag(help: "Accept, and set the fence, although neither the HSM token nor another node has a finding.")
    var withoutFinding = false

    @OptionGroup var change: ChangeOptions

    func validate() throws {
        if let reason { try ReasonOption.check(reason) }
    }

    func run() async throws {
        try await change.post(
            "/v1/ledger/accept-restore",
            AcceptRestoreRequest(reason: reason ?? "none was given", withoutFinding: withoutFinding ? true : nil),
            for: AcceptRestoreAnswer.self, dryRunSays: "the ledger can be accepted"
        ) { answer in
            Table(pairs: [
                ("Status", answer.status), ("Ledger ended at record", String(answer.ledgerSequence)),
                ("HSM token remembered record", answer.tokenSequence.map(String.init) ?? "-"),
                ("Refuses payment tokens signed before", answer.servedFrom.map(RFC3339.string) ?? "-"),
            ]).text
        }
    }
}
