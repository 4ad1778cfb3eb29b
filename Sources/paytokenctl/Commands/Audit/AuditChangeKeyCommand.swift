import ArgumentParser
import DaemonAPI

struct AuditChangeKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "change-key",
        abstract: "Puts another audit key into service; needs a second person.",
        discussion: """
            A new key is made in the token and signs the record's checkpoints from then on. What the former one signed \
            stays valid, so auditors need both public keys: give them the new one, and keep the old.

              paytokenctl audit change-key --reason "yearly change" --dry-run
              paytokenctl audit change-key --reason "yearly change"
              paytokenctl audit public-key > keys.pem
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
            dryRun.target("/v1/audit/key"), AuditKeyChangeRequest(reason: reason), for: AuditKeyChangeAnswer.self)
        switch format.output {
        case .json: try Console.output(json: bytes)
        case .table:
            try Console.output(
                Table(pairs: [
                    ("Status", answer.status), ("Signed until now", answer.from),
                    ("Signs now", answer.to ?? answer.from),
                ])
                .text)
        }
        if answer.to != nil {
            Console.error(
                "Give auditors the new public key beside the old one: paytokenctl audit public-key > keys.pem")
        }
        dryRun.report("the audit key can be changed")
    }
}
