import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation

/// The arguments of every change of a key's state.
struct KeyStateOptions: ParsableArguments {
    @OptionGroup var key: KeyArgument
    @OptionGroup var why: ReasonOption
    @OptionGroup var change: ChangeOptions

    /// Requests a different state for the key.
    func post(
        _ state: String, cutOff: Date? = nil, whenPending note: (PendingAnswer) -> String? = { _ in nil }
    ) async throws {
        try await post("state", KeyStateRequest(to: state, reason: why.reason, cutOff: cutOff), note)
    }

    func post(_ path: String, _ body: some Encodable, _ note: (PendingAnswer) -> String?) async throws {
        // The daemon's response says that it was a dry run, and whether a second person would be needed.
        try await change.post(
            "/v1/keys/\(key.key.hex)/\(path)", body, for: KeySummary.self, dryRunSays: nil, whenPending: note
        ) { MerchantKeyTable.one($0).text }
    }
}

struct KeySuspendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "suspend", abstract: "Stops a key at once; resume takes it back into service.",
        discussion: """
            Once this command has ended, nothing more is released under the key, not even for requests that had begun \
            before.

              paytokenctl key suspend 9c1185a5 --reason "laptop stolen"
            """)

    @OptionGroup var options: KeyStateOptions

    func run() async throws { try await options.post("suspended") }
}

struct KeyResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Takes a suspended key back into service; needs a second person.",
        discussion: """
              paytokenctl key resume 9c1185a5 --reason "laptop found, was off"
            """)

    @OptionGroup var options: KeyStateOptions

    func run() async throws { try await options.post("active") }
}

struct KeyRetireCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retire", abstract: "Deactivates a superseded key, at once or after a while.",
        discussion: """
            Payment tokens under the old key arrive for hours after a rotation: use --cut-off for them.

              paytokenctl key retire 9c1185a5 --cut-off 24h --reason "rotated"
            """)

    @Option(
        help: ArgumentHelp(
            "The time for which it still decrypts: 24h, 7d; at most 90d. Default: none.", valueName: "duration"))
    var cutOff: ShortDuration?

    @OptionGroup var options: KeyStateOptions

    func run() async throws {
        try await options.post("deactivated", cutOff: cutOff.map { Date(timeIntervalSinceNow: $0.seconds) })
    }
}

struct KeyCompromiseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compromise", abstract: "Marks a key as compromised: it never decrypts again.",
        discussion: """
            The key is suspended at once; a second person confirms it. From there it can only be destroyed.

              paytokenctl key compromise 9c1185a5 --reason "found in a repository"
            """)

    @OptionGroup var options: KeyStateOptions

    func run() async throws {
        try await options.post("compromised") { pending in
            pending.keyState == "suspended" ? "The key is suspended now." : nil
        }
    }
}

struct KeyDestroyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "destroy", abstract: "Removes a key from the HSM token for ever; needs a second person.",
        discussion: """
            An active key is not destroyed at once: suspend, retire or compromise it first.

              paytokenctl key destroy 9c1185a5 --reason "retired in January"
            """)

    @OptionGroup var options: KeyStateOptions

    func run() async throws { try await options.post("destroyed") }
}

struct KeyAdoptCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "adopt",
        abstract: "Adds a key that an HSM token has to the ledger; needs a second person.",
        discussion: """
            For keys that were made in the HSM token by other means, and after a lost ledger. An Apple Pay key's \
            certificate must be in the HSM token.

              paytokenctl key adopt 9c1185a5 --reason "made by the HSM's own tool"

            With --wallet google-pay it adopts a Google Pay key, which has no certificate. Name the merchant as Google's \
            console does. A second person approves key and merchant; then repeat the command with --approval ID. Prove \
            the adopted key on each host (key prove), and state that it is in Google's console (rotate added). It \
            serves only after that.

              paytokenctl key adopt 9c1185a5 --wallet google-pay \\
                  --merchant-identifier BCR2DN4TEXAMPLE \\
                  --reason "made by the HSM's own tool"
            """)

    @Option(help: WalletOption.help)
    var wallet: WalletOption = .applePay

    @Option(
        help: ArgumentHelp("A Google Pay key's merchant, by its identifier at Google.", valueName: "id"),
        completion: .merchant)
    var merchantIdentifier: String?

    @Option(
        help: ArgumentHelp("The approval that a Google Pay key's adoption waited for.", valueName: "id"),
        completion: .approval)
    var approval: String?

    @OptionGroup var options: KeyStateOptions

    func validate() throws {
        if wallet == .googlePay {
            guard merchantIdentifier != nil else {
                throw ValidationError("Missing expected argument '--merchant-identifier <id>'")
            }
        } else {
            guard merchantIdentifier == nil, approval == nil else {
                throw ValidationError(
                    "The certificate names the key's merchant, and the approval adopts the key: give "
                        + "--merchant-identifier and --approval with --wallet google-pay only.")
            }
        }
    }

    func run() async throws {
        try await options.post(
            "adopt",
            KeyAdoptionRequest(
                reason: options.why.reason, use: wallet.use, merchantIdentifier: merchantIdentifier, approval: approval)
        ) { wallet == .googlePay ? NextStep.repeatCommand("adopted")($0) : nil }
    }
}
