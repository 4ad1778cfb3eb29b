import ArgumentParser
import CommandOutput
import DaemonAPI

struct TokenTestKeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove-test-keys",
        abstract: "Removes the stored key pairs of the self-tests.",
        discussion: """
            An HSM token that makes no session key pairs, such as a TPM, keeps a test pair for each purpose; \
            paytokenctl status lists them. They are labelled "paytokend test" and open nothing. The daemon makes them \
            again when it next opens the HSM token, so remove them just before you take the HSM token out of the \
            configuration. The record says who removed them.

              paytokenctl token remove-test-keys --token hsm2
            """)

    @Option(help: "The configured name of the HSM token.")
    var token: String

    @OptionGroup var change: ChangeOptions

    func validate() throws {
        // The name becomes a part of the request's path.
        guard token.wholeMatch(of: /[A-Za-z0-9._@-]+/) != nil else {
            throw ValidationError("--token takes the name of an HSM token in the configuration.")
        }
    }

    func run() async throws {
        try await change.post(
            "/v1/tokens/\(token)/remove-test-keys", EmptyRequest(), for: TestKeyRemovalAnswer.self,
            dryRunSays: "the test keys of \(token) can be removed"
        ) { answer in
            Table(pairs: [("Status", answer.status), ("Key pairs", answer.pairs.map { "\($0)" } ?? "-")]).text
        }
    }
}
