import ArgumentParser
import CommandOutput
import DaemonAPI
import GatewayAPI

struct SessionCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "session", abstract: "Merchant sessions, which begin every Apple Pay payment on the web.",
        subcommands: [SessionCheckCommand.self])
}

struct SessionCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Asks Apple for a merchant session, through the gateway, and says what is wrong.",
        discussion: """
            Shows each step: paytokend's certificate for the merchant (identity), Apple's host (name, connection, \
            tls), the signature by the HSM token, and Apple's answer. The session is discarded. Exit status 0 if Apple \
            gave one.

            It needs the role support on the gateway's admin socket (admin.access), which root and the gateway's user \
            have by default; PAYTOKEND_ADMIN_SOCKET is not used. The permissions of the gateway's clients are not \
            checked, so this does not explain a backend's 403.

              paytokenctl session check merchant.com.example --domain shop.example
            """)

    @Argument(help: "The merchant identifier.", completion: .merchant)
    var merchant: String

    @Option(help: "A domain that is registered for the merchant with Apple.")
    var domain: String

    @OptionGroup var format: OutputOptions

    @Option(help: ArgumentHelp("The gateway's admin socket.", valueName: "path"), completion: .file())
    var socket = DaemonSocket.gatewayAdmin.defaultPath

    func run() async throws {
        let connection = DaemonConnection(.gatewayAdmin, option: socket)
        let (answer, bytes) = try await connection.post(
            "/v1/session-check", SessionCheckRequest(merchantIdentifier: merchant, domain: domain),
            for: SessionCheckAnswer.self)
        try format.show(bytes, Self.text(answer))
        guard let code = answer.code else { return }
        let details = answer.details.map { " (\($0))" } ?? ""
        throw CommandFailure(
            .no, "\(code): \(answer.message ?? "")\(details)",
            hint: CommandHints.commands(after: code, details: answer.details, at: "/v1/session-check"))
    }

    static func text(_ answer: SessionCheckAnswer) -> String {
        var table = Table(columns: ["STEP", "OUTCOME", "WHAT"])
        for step in answer.steps {
            table.add([step.step, step.outcome.rawValue, meaning(step.step)])
        }
        return table.text
    }

    private static func meaning(_ step: String) -> String {
        switch step {
        case "identity": "paytokend gives a valid identity certificate of the merchant"
        case "name": "the name of Apple's host is resolved"
        case "connection": "TCP, through the proxy if there is one"
        case "tls": "the server is Apple's host"
        case "signature": "the HSM token signs the handshake"
        case "answer": "Apple accepts merchant, domain and certificate, and gives a session"
        default: ""
        }
    }
}
