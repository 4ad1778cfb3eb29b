// The command line of paytoken-outbound. The target Outbound does the work; begin reading with OutboundProgram there.

import ArgumentParser
import CommandOutput
import HostSystem
import Outbound
import ProductVersion

/// Runs the outbound program in the foreground.
@main
struct PaytokenOutbound: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "paytoken-outbound",
        abstract: "Makes the requests to Apple's App Store Connect API that paytokend has permitted.",
        discussion: """
            Asks paytokend for requests, makes each once, and reports the result. It listens on nothing, and needs \
            the role portal-read on paytokend's payments socket. Logs go to standard error. It was never tried \
            against Apple's API, only against a simulator of its published specification.

            EXAMPLES
              paytoken-outbound \\
                  --config /etc/paytoken-outbound/paytoken-outbound.yaml --check
              paytoken-outbound --config /etc/paytoken-outbound/paytoken-outbound.yaml

            EXIT STATUS
              0   stopped by a signal, or --check found nothing wrong
              64  wrong usage
              70  a defect
              78  the configuration is wrong
            """,
        version: "paytoken-outbound \(ProductVersion.current)")

    @OptionGroup var options: ServerOptions

    static func main() async {
        HardenedProcess.forbidNewPrivileges()
        await runProcess()
    }

    func run() async throws {
        try await options.run(OutboundProgram.check(configurationFile:)) {
            await OutboundProgram.run(configurationFile: $0)
        }
    }
}
