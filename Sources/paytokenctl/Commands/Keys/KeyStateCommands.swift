import ArgumentParser
import DaemonAPI
import Encodings
import Foundation

/// What every change of a key's state is told.
struct KeyStateOptions: ParsableArguments {
    @Argument(
        help: ArgumentHelp("The key: its publicKeyHash in base64, or 8 to 64 characters of hex.", valueName: "key"),
        completion: .key, transform: KeyReference.parse)
    var key: KeyReference

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

    func post(
        _ path: String, _ body: some Encodable, whenPending remark: (PendingAnswer) -> String? = { _ in nil }
    ) async throws {
        let target = dryRun.target("/v1/keys/\(key.hex)/\(path)")
        let (summary, bytes) = try await socket.connection.post(
            target, body, for: KeySummary.self, whenPending: remark)
        try MerchantKeyTable.show(summary, bytes, format.output)
    }
}

struct KeySuspendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "suspend", abstract: "Sets a key aside at once; resume takes it back.",
        discussion: """
            When this has answered nothing is released under the key, requests on their way included.

              paytokenctl key suspend 9c1185a5 --reason "laptop stolen"
            """)

    @OptionGroup var options: KeyStateOptions

    func run() async throws {
        try await options.post("state", KeyStateRequest(to: "suspended", reason: options.reason))
    }
}

struct KeyResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Takes a suspended key back into service; needs a second person.",
        discussion: """
              paytokenctl key resume 9c1185a5 --reason "laptop found, was off"
            """)

    @OptionGroup var options: KeyStateOptions

    func run() async throws { try await options.post("state", KeyStateRequest(to: "active", reason: options.reason)) }
}

struct KeyRetireCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retire", abstract: "Deactivates a superseded key, at once or after a while.",
        discussion: """
            Tokens under the old key arrive for hours after a rotation: give them --cut-off.

              paytokenctl key retire 9c1185a5 --cut-off 24h --reason "rotated"
            """)

    @Option(
        help: ArgumentHelp(
            "For how long it still decrypts: 24h, 7d; at most 90d. Default: not at all.", valueName: "duration"))
    var cutOff: ShortDuration?

    @OptionGroup var options: KeyStateOptions

    func run() async throws {
        let end = cutOff.map { Date(timeIntervalSinceNow: $0.seconds) }
        try await options.post("state", KeyStateRequest(to: "deactivated", reason: options.reason, cutOff: end))
    }
}

struct KeyCompromiseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compromise", abstract: "Marks a key that others may have: it never decrypts again.",
        discussion: """
            The key is suspended at once; a second person makes it final. From there it can only be destroyed.

              paytokenctl key compromise 9c1185a5 --reason "found in a repository"
            """)

    @OptionGroup var options: KeyStateOptions

    func run() async throws {
        try await options.post("state", KeyStateRequest(to: "compromised", reason: options.reason)) { pending in
            pending.keyState == "suspended" ? "The key is suspended now." : nil
        }
    }
}

struct KeyDestroyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "destroy", abstract: "Removes a key from the token for ever; needs a second person.",
        discussion: """
            An active key is not destroyed at once: suspend, retire or compromise it first.

              paytokenctl key destroy 9c1185a5 --reason "retired in January"
            """)

    @OptionGroup var options: KeyStateOptions

    func run() async throws {
        try await options.post("state", KeyStateRequest(to: "destroyed", reason: options.reason))
    }
}

struct KeyAdoptCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "adopt",
        abstract: "Takes a key into service that the ledger does not know; needs a second person.",
        discussion: """
            For keys that were made in the token by other means, and after a lost ledger. The key's certificate must be \
            in the token.

              paytokenctl key adopt 9c1185a5 --reason "made by the HSM's own tool"
            """)

    @OptionGroup var options: KeyStateOptions

    func run() async throws { try await options.post("adopt", KeyAdoptRequest(reason: options.reason)) }
}
