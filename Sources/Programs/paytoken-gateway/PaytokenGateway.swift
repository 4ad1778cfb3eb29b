// The gateway's executable: its command line. The target Gateway does the work; begin reading with GatewayProgram
// there.

import ArgumentParser
import CommandOutput
import Gateway
import HostSystem
import ProductVersion

/// Runs the merchant server in the foreground.
@main
struct PaytokenGateway: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "paytoken-gateway",
        abstract: "The merchant endpoints over the network, in front of paytokend.",
        discussion: """
            Serves merchants' backends over HTTPS, and metrics and status on a separate Unix socket. Logs go to \
            standard error. After SIGTERM it finishes the requests under way, for at most 30 seconds, and exits 0. \
            After SIGHUP it reads clients, certificates, admin.access and the log level again, all or nothing.

            EXAMPLES
              paytoken-gateway --config /etc/paytoken-gateway/paytoken-gateway.yaml --check
              paytoken-gateway --config /etc/paytoken-gateway/paytoken-gateway.yaml
              paytoken-gateway new-key
              paytoken-gateway payment list --state pending
              paytoken-gateway store create --help

            EXIT STATUS
              0   stopped by a signal, or --check found nothing wrong
              64  wrong usage
              66  standard output cannot be written (75 where its disk is full)
              70  a defect
              75  another gateway serves the admin socket or the address, or uses the \
            store's file, or the store's database is unavailable: try again
              78  the configuration is wrong
            """,
        version: "paytoken-gateway \(ProductVersion.current)",
        subcommands: [Serve.self, NewKey.self, PaymentCommand.self, StoreCommand.self],
        defaultSubcommand: Serve.self)

    static func main() async {
        HardenedProcess.forbidNewPrivileges()
        await runProcess()
    }
}

/// The command that runs the merchant server. It is the default if the command line names no subcommand.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Serve; the default without a subcommand.", shouldDisplay: false)

    @OptionGroup var options: ServerOptions

    func run() async throws {
        try await options.run(GatewayProgram.check(configurationFile:)) {
            await GatewayProgram.run(configurationFile: $0)
        }
    }
}

/// Makes a secret for one client.
struct NewKey: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "new-key", abstract: "Make a bearer key for a client.",
        discussion: """
            Prints the key, which is stored nowhere, and its SHA-256, which goes into the configuration. Give the key \
            to the client's backend, which sends it with each request: Authorization: Bearer KEY.
            """)

    @OptionGroup var format: OutputOptions

    func run() throws {
        let key = NewBearerKey()
        try format.show(Array(key.json.utf8), "key         \(key.key)\nkey_sha256  \(key.keySHA256)\n")
    }
}
