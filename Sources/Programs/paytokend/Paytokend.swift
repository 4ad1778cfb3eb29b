// The daemon's executable: its command line. The target Daemon does the work; begin reading with DaemonProgram there.

import ArgumentParser
import CommandOutput
import Daemon
import HostSystem
import ProductVersion

/// Runs the daemon in the foreground.
@main
struct Paytokend: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "paytokend",
        abstract: "Verifies and decrypts Apple Pay payment tokens with keys that stay in a PKCS#11 token.",
        discussion: """
            Serves HTTP/1.1 with JSON on two Unix sockets: one for payment backends, one for administration. Logs go \
            to standard error. After SIGTERM it finishes the requests under way, for at most 30 seconds, and exits 0. \
            After SIGHUP it reads access rules, trust, log level and PIN files again, all or nothing.

            EXAMPLES
              paytokend --config /etc/paytokend/paytokend.yaml --check
              paytokend --config /etc/paytokend/paytokend.yaml
              paytokend --config /etc/paytokend/paytokend.yaml --await-restore

            EXIT STATUS
              0   stopped by a signal, or --check found nothing wrong
              64  wrong usage
              70  a defect
              75  try again later: another daemon serves the socket, uses the ledger or has this node's name in it;
                  the ledger's disk is full, or its server is unavailable
              78  the configuration is wrong, the ledger was moved away, or it is not the one that the HSM token remembers
            """,
        version: "paytokend \(ProductVersion.current)")

    @OptionGroup var options: ServerOptions

    @Flag(
        help: """
            Start although the ledger is older than the HSM token remembers, or new: release nothing until paytokenctl \
            ledger accept-restore accepts it.
            """)
    var awaitRestore = false

    static func main() async {
        HardenedProcess.forbidNewPrivileges()
        await runProcess()
    }

    func run() async throws {
        try await options.run(DaemonProgram.check(configurationFile:)) {
            await DaemonProgram.run(configurationFile: $0, awaitsRestore: awaitRestore)
        }
    }
}
