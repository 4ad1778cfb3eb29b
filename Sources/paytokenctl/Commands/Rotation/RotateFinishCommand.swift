import ArgumentParser
import DaemonAPI
import Encodings
import Foundation

struct RotateFinishCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "finish",
        abstract: "Deactivates a merchant's old key; late tokens are opened until a cut-off.",
        discussion: """
            Refused while the old key still opens tokens, and before the new one has opened one: then Apple does not \
            encrypt to it yet, and the certificate is most likely not activated. Only what this host opened counts: with \
            several hosts, look at rotate status on each first. --force finishes all the same. A deactivated key does \
            not become active again.

              paytokenctl rotate finish merchant.com.example
              paytokenctl rotate finish merchant.com.example --cut-off 24h

            When the cut-off has passed, the old key can be destroyed: paytokenctl key destroy.
            """)

    @Argument(help: ArgumentHelp("The merchant identifier.", valueName: "merchant"), completion: .merchant)
    var merchant: String

    @Option(
        help: ArgumentHelp(
            "For how long the old key still opens late tokens: 24h; 0s for not at all. Default: 7d.",
            valueName: "duration"))
    var cutOff: ShortDuration?

    @Option(help: ArgumentHelp("ec or rsa, when keys of both are being rotated.", valueName: "ec|rsa"))
    var type: KeyTypeOption?

    @Option(help: ArgumentHelp("Why, for the record; at most 200 characters.", valueName: "text"))
    var reason = "rotated"

    @Flag(help: "Although the old key is in use, or the new one is not.")
    var force = false

    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        guard (1...200).contains(reason.unicodeScalars.count) else {
            throw ValidationError("--reason has 1 to 200 characters.")
        }
    }

    func run() async throws {
        let end: RotationFinishRequest.CutOff =
            switch cutOff?.seconds {
            case nil: .standard
            case .some(0): .now
            case .some(let seconds): .at(Date(timeIntervalSinceNow: seconds))
            }
        let (answer, bytes) = try await socket.connection.post(
            dryRun.target("/v1/rotations/\(PercentEncoding.encoded(merchant))/finish"),
            RotationFinishRequest(type: type?.name, cutOff: end, force: force, reason: reason),
            for: RotationFinishAnswer.self)
        switch format.output {
        case .json: try Console.output(json: bytes)
        case .table:
            var table = Table(columns: ["OLD KEY", "OPENS LATE TOKENS UNTIL"])
            for key in answer.retired { table.add([key, answer.cutOff.map(RFC3339.string) ?? "now"]) }
            try Console.output(table.text)
        }
        dryRun.report("the old key can be deactivated")
    }
}
