import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import Glibc
import StrictJSON

struct RotateRenewCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "renew",
        abstract: "Renews a merchant's certificate through Apple's API.",
        discussion: """
            Starts the renewal, or continues an open one: it makes the new key if this host serves payments, waits until \
            every node has proved it, has Apple issue the certificate, waits until it is imported and proved with, \
            activates it, and after a test payment deactivates the old key. It needs the role admin, on the host with the \
            key of Apple's API. With approvals.people: 2, another person approves each change at Apple: the command ends \
            with 75 and names the approval; go on with --approval.

            It asks before the certificate is requested (unless --yes), and always before it is activated or revoked: Apple \
            offers no way back. After Apple's answer was lost it only reads; after half an hour a person looks into \
            the portal and decides if --repeat-attempt repeats the request. The old key keeps opening payment tokens for seven days after \
            the end.

              paytokenctl rotate renew merchant.com.example
              paytokenctl rotate renew merchant.com.example --approval 0a1b2c3d4e5f6071
              paytokenctl rotate renew merchant.com.example --test-payment-made
              paytokenctl rotate renew merchant.com.example --revoke-old

            Exit status: 0 done; 1 something must be repaired first; 75 go on later with the command that it names. This \
            was never tried against Apple's API, only against a simulator of its published specification.
            """)

    @Argument(help: ArgumentHelp("The merchant identifier.", valueName: "merchant"), completion: .merchant)
    var merchant: String

    @Option(help: KeyUseOption.help)
    var use: KeyUseOption = .processing

    @Option(help: ArgumentHelp("ec or rsa; default: the type of the merchant's current key.", valueName: "ec|rsa"))
    var type: KeyTypeOption?

    @Option(help: ArgumentHelp("A node without which the renewal goes on; repeat it for several.", valueName: "node"))
    var excludeNode: [String] = []

    @Option(
        help: ArgumentHelp("Repeat an attempt whose outcome you know, such as create:1.", valueName: "change:number"))
    var repeatAttempt: RepeatedAttempt?

    @Flag(help: "Say that a payment with the new key has succeeded on each node.")
    var testPaymentMade = false

    @Flag(help: "Revoke the previous certificate, after the renewal is finished.")
    var revokeOld = false

    @Flag(help: "Give the renewal up. Nothing is changed at Apple.")
    var abandon = false

    @Option(help: ArgumentHelp("The approval of the next change at Apple.", valueName: "id"))
    var approval: String?

    @Flag(help: "Do not ask before the certificate is requested.")
    var yes = false

    @Flag(help: "Show the plan and Apple's present state, and begin nothing.")
    var dryRun = false

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    /// An attempt as `change:number`.
    struct RepeatedAttempt: ExpressibleByArgument {
        let attempt: RenewalRequest.Attempt

        init?(argument: String) {
            let parts = argument.split(separator: ":", omittingEmptySubsequences: false)
            guard parts.count == 2, ["create", "activate", "revoke"].contains(parts[0]), let number = Int(parts[1]),
                number >= 0
            else { return nil }
            attempt = RenewalRequest.Attempt(change: String(parts[0]), number: number)
        }
    }

    /// The longest time for which the command waits without a new step.
    private static let longestWait = Duration.seconds(600)
    private static let pause = Duration.seconds(1)

    func run() async throws {
        if dryRun {
            return try await RotatePlanCommand.show(merchant, excluding: excludeNode, format, socket.connection)
        }
        var (step, waited, progress) = ("", ContinuousClock.now, ProgressLine())
        var approval = approval
        var request = request
        var begun: Set<String> = []
        while true {
            let (state, bytes) = try await post(request)
            if request.renewal == nil {
                request.renewal = state.renewal
                // The statement is about the payments that the step asks for, and not about later ones.
                request.testPaymentMade = testPaymentMade && state.step == "make_test_payment"
                if request.testPaymentMade { continue }
            }
            if state.step != step {
                progress.clear()
                (step, waited) = (state.step, .now)
                Console.error("\(state.step): \(state.next)")
            }
            switch state.step {
            case _ where abandon, "done":
                return try format.show(bytes, RotatePlanCommand.text(state))
            case "stop":
                try format.show(bytes, RotatePlanCommand.text(state))
                throw CommandFailure(.no, state.next)
            case _ where state.nextChange != nil:
                guard begun.insert(state.step).inserted else {
                    try format.show(bytes, RotatePlanCommand.text(state))
                    throw CommandFailure(
                        .tryAgainLater, "The request was not sent to Apple.", more: ["Go on later: \(command)"])
                }
                try ask(state, bytes, hasApproval: approval != nil)
                var approving = request
                (approving.approve, approving.approval) = (state.nextChange, approval)
                let (after, _) = try await post(approving)
                // Nothing begins if Apple's list has grown too old meanwhile.
                if after.attempts?.count == state.attempts?.count {
                    begun.remove(state.step)
                } else {
                    approval = nil
                }
            case "watch", "make_test_payment", "decide_repeat":
                try format.show(bytes, RotatePlanCommand.text(state))
                throw CommandFailure(.tryAgainLater, state.next, more: [advice(state)])
            default:
                guard waited.duration(to: .now) < Self.longestWait else {
                    try format.show(bytes, RotatePlanCommand.text(state))
                    throw CommandFailure(.tryAgainLater, state.next, more: ["Go on later: \(command)"])
                }
                if progress.isDue { progress.show("waiting: \(state.step)") }
                try await Task.sleep(for: Self.pause)
            }
        }
    }

    private var request: RenewalRequest {
        RenewalRequest(
            merchantIdentifier: merchant, use: use.name, algorithm: type?.name,
            excludeNodes: excludeNode.isEmpty ? nil : excludeNode, repeatAttempt: repeatAttempt?.attempt,
            revokeOld: revokeOld, abandon: abandon)
    }

    private func post(_ request: RenewalRequest) async throws -> (answer: RenewalPlanStatus, bytes: [UInt8]) {
        try await socket.connection.post(
            "/v1/renewals", request, for: RenewalPlanStatus.self,
            whenPending: { "Then go on: \(command) --approval \($0.approval)" })
    }

    /// The command to go on with. A repeated attempt stays in it: the approval of an attempt covers its number.
    private var command: String { command(repeating: repeatAttempt?.attempt) }

    private func command(repeating repeated: RenewalRequest.Attempt?) -> String {
        var words = ["paytokenctl rotate renew", merchant]
        if let use = use.name { words += ["--use", use] }
        if let type { words += ["--type", type.rawValue] }
        for node in excludeNode { words += ["--exclude-node", node] }
        if revokeOld { words.append("--revoke-old") }
        if let repeated { words += ["--repeat-attempt", "\(repeated.change):\(repeated.number)"] }
        return words.joined(separator: " ")
    }

    /// Asks before a change at Apple. An approval of another person answers the question.
    private func ask(_ state: RenewalPlanStatus, _ bytes: [UInt8], hasApproval: Bool) throws {
        if hasApproval || yes && state.step == "create" { return }
        guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else {
            try format.show(bytes, RotatePlanCommand.text(state))
            throw CommandFailure(
                .tryAgainLater, state.next, more: ["Go on in a terminal, which asks first: \(command)"])
        }
        try Descriptor.write(Array("\(question(state)) now? Type yes: ".utf8), to: STDERR_FILENO)
        guard readLine() == "yes" else {
            throw CommandFailure(.tryAgainLater, "Nothing was changed.", more: ["Go on later: \(command)"])
        }
    }

    /// The change at Apple with all that a person approves.
    private func question(_ state: RenewalPlanStatus) -> String {
        let certificate = state.nextChange?.certificateId ?? ""
        let change =
            switch state.step {
            case "create": "Request a new certificate of \(merchant)"
            case "activate": "Activate certificate \(certificate) of \(merchant)"
            default: "Revoke certificate \(certificate) of \(merchant)"
            }
        let remarks =
            (state.nextChange?.usedAtOnce == true ? ["wallets may use it at once"] : [])
            + (excludeNode.isEmpty ? [] : ["without \(excludeNode.joined(separator: ", "))"])
        return remarks.isEmpty ? change : "\(change) (\(remarks.joined(separator: "; ")))"
    }

    private func advice(_ state: RenewalPlanStatus) -> String {
        switch state.step {
        case "make_test_payment": return "Then go on: \(command) --test-payment-made"
        case "decide_repeat":
            // An attempt of an earlier renewal has the number 0.
            let attempt = state.attempts?.last.map { RenewalRequest.Attempt(change: $0.change, number: $0.number) }
            let repeating = command(repeating: attempt ?? RenewalRequest.Attempt(change: "create", number: 0))
            return "To repeat it: \(repeating)"
        default: return "Go on later: \(command)"
        }
    }
}
