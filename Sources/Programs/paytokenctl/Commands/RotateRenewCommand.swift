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
            Starts the renewal, or continues an open one. The command makes the new key if this host serves payments, waits \
            until every node has proved it, and has Apple issue the certificate. It waits until every node has imported the \
            certificate and proved the key with it, activates it, and after a test payment deactivates the old key. It needs \
            the roles admin and audit, on the host with the key of Apple's API. If that host serves no payments, make the key \
            with rotate start on one that does. With approvals.people: 2, another person approves each change at Apple: the \
            command ends with 75 and names the approval; go on with --approval.

            It asks before it starts a renewal and before it requests a certificate (unless --yes). --yes starts a renewal only \
            if the certificate in use ends within 60 days; otherwise the command says so and exits with 0. It always asks \
            before wallets may use a certificate, and before it revokes one: Apple offers no way back. After Apple's answer was \
            lost, it only reads. After half an hour a person reads the portal, and decides if --repeat-attempt repeats the \
            request. The old key opens payment tokens for seven days after the end. A node that is up is never excluded.

              paytokenctl rotate renew merchant.com.example
              paytokenctl rotate renew merchant.com.example \\
                  --renewal 1f2e3d4c5b6a7988 --approval 0a1b2c3d4e5f6071
              paytokenctl rotate renew merchant.com.example --test-payment-made
              paytokenctl rotate renew merchant.com.example --revoke-old

            Exit status: 0 done; 1 something must be repaired first; 75 go on later with the command that it names. This \
            has never been tried against Apple's API, only against a simulator of its published specification.
            """)

    @Argument(help: ArgumentHelp("The merchant identifier.", valueName: "merchant"), completion: .merchant)
    var merchant: String

    @Option(help: KeyUseOption.help)
    var use: KeyUseOption = .processing

    @Option(help: ArgumentHelp("ec or rsa; default: the type of the merchant's current key.", valueName: "ec|rsa"))
    var type: KeyTypeOption?

    @Option(help: ArgumentHelp("The renewal to continue; default: the open one, or a new one.", valueName: "id"))
    var renewal: String?

    @Option(help: ArgumentHelp("A node without which the renewal goes on; repeat it for several.", valueName: "node"))
    var excludeNode: [String] = []

    @Option(
        help: ArgumentHelp("Repeat an attempt whose outcome you know, such as create:1.", valueName: "change:number"))
    var repeatAttempt: RepeatedAttempt?

    @Flag(help: "Say that a payment, or a merchant session, with the new key has succeeded on each node.")
    var testPaymentMade = false

    @Flag(help: "Revoke the previous certificate, after the renewal is finished.")
    var revokeOld = false

    @Flag(help: "Abandon the renewal. Nothing is changed at Apple.")
    var abandon = false

    @Option(help: ArgumentHelp("The approval of the next change at Apple.", valueName: "id"))
    var approval: String?

    @Flag(help: "Do not ask before a due renewal starts, or before a request if wallets keep their certificate.")
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
        var (step, waited, progress, isFirst) = ("", ContinuousClock.now, ProgressLine(), true)
        var approval = approval
        var request = request
        request.renewal = renewal
        if renewal == nil, !revokeOld, !abandon {
            let shown = try await plans()
            request.renewal = try openRenewal(shown.map(\.plan))
            if request.renewal == nil, Self.starting(shown) != nil, try await !mayStart() { return }
        }
        var begun: Set<String> = []
        while true {
            let (state, bytes) = try await post(request)
            request.renewal = state.renewal ?? request.renewal
            let command = command(request.renewal)
            if isFirst {
                isFirst = false
                // The statement is about the payments that the step asks for, and not about later ones.
                request.testPaymentMade = testPaymentMade && state.step == "make_test_payment"
                if request.testPaymentMade { continue }
                if testPaymentMade {
                    Console.error(
                        "--test-payment-made was not used: the step is \(state.step). Give it again when the step is make_test_payment."
                    )
                }
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
                // An approval of another person answers the question. An activation is never begun by --yes alone.
                if approval == nil, !yes || state.step != "create" || state.nextChange?.usedAtOnce != false {
                    try ask("\(question(state)) now?", command, orShow: (state, bytes))
                }
                var approving = request
                (approving.approve, approving.approval) = (state.nextChange, approval)
                let (after, _) = try await post(approving)
                // Nothing begins if Apple's list has grown too old meanwhile; then it is read first.
                if after.attempts?.count == state.attempts?.count {
                    if after.nextChange == nil { begun.remove(state.step) }
                    try await Task.sleep(for: Self.pause)
                } else {
                    approval = nil
                }
            case "watch", "make_test_payment", "decide_repeat":
                try format.show(bytes, RotatePlanCommand.text(state))
                throw CommandFailure(.tryAgainLater, state.next, more: [advice(state, command)])
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

    private typealias Shown = (plan: RenewalPlanStatus, element: JSONValue)

    /// The merchant's plans of the wanted use and algorithm, decoded and as received.
    private func plans() async throws -> [Shown] {
        let (items, elements) = try await RotatePlanCommand.plans(merchant, excluding: [], socket.connection)
        return zip(items, elements).map { ($0, $1) }.filter { plan, _ in
            plan.use == use.name ?? "processing" && type.map { plan.algorithm.lowercased() == $0.rawValue } ?? true
        }
    }

    /// Returns the open renewal, which the answers to all further requests are about: none of them starts another. Returns
    /// nil if the daemon starts one, or finds one that has ended.
    private func openRenewal(_ shown: [RenewalPlanStatus]) throws -> String? {
        let open = shown.filter { $0.state == "open" }
        // Of two, the daemon has the person name one.
        guard open.isEmpty else { return open.count == 1 ? open[0].renewal : nil }
        guard approval == nil, !testPaymentMade, repeatAttempt == nil else {
            guard let ended = shown.first(where: { $0.renewal != nil }) else {
                throw CommandFailure(.no, "No renewal of this merchant is open, so there is nothing to go on with.")
            }
            return ended.renewal
        }
        return nil
    }

    /// Returns the plans of which the daemon starts one: for a key that waits, otherwise for a new key unless a renewal has
    /// just ended. Nil if it starts none.
    private static func starting(_ shown: [Shown]) -> [Shown]? {
        let notBegun = shown.filter { $0.plan.renewal == nil }
        let waiting = notBegun.filter { $0.plan.publicKeyHash != nil }
        return !waiting.isEmpty ? waiting : notBegun.count == shown.count ? notBegun : nil
    }

    /// Asks before a renewal starts. `--yes` answers only if the renewal is due by Apple's list: nothing else would keep a
    /// line of cron from starting one after the other.
    ///
    /// - Returns: false if no renewal is due.
    private func mayStart() async throws -> Bool {
        if yes { try await RotatePlanCommand.readList(merchant, socket.connection) }
        let starting = Self.starting(try await plans()) ?? []
        if yes, starting.count == 1, let inUse = starting[0].plan.certificateInUse {
            guard inUse.renewFrom > Date() else { return true }
            let (end, due) = (RFC3339.string(inUse.notAfter), RFC3339.string(inUse.renewFrom))
            try format.show(
                starting[0].element.compact,
                "No renewal was started: certificate \(inUse.certificateId) of \(merchant) ends on \(end), and --yes "
                    + "renews it from \(due) on.\n")
            return false
        }
        if yes { Console.error("Apple's list does not show one certificate in use, so --yes starts no renewal.") }
        let waiting = starting.first?.plan.publicKeyHash
        try ask(
            waiting.map { "Renew the certificate of \(merchant) with the waiting key \($0)?" }
                ?? "Make a new key of \(merchant) and renew its certificate?", command(nil), orShow: nil)
        return true
    }

    private func post(_ request: RenewalRequest) async throws -> (answer: RenewalPlanStatus, bytes: [UInt8]) {
        try await socket.connection.post(
            "/v1/renewals", request, for: RenewalPlanStatus.self,
            whenPending: { "Then go on: \(command(request.renewal)) --approval \($0.approval)" })
    }

    /// The command to go on with. A repeated attempt stays in it: the approval of an attempt covers its number.
    private func command(_ renewal: String?) -> String { command(renewal, repeating: repeatAttempt?.attempt) }

    private func command(_ renewal: String?, repeating repeated: RenewalRequest.Attempt?) -> String {
        var words = ["paytokenctl rotate renew", merchant]
        if let renewal { words += ["--renewal", renewal] }
        if let use = use.name { words += ["--use", use] }
        if let type { words += ["--type", type.rawValue] }
        for node in excludeNode { words += ["--exclude-node", node] }
        if revokeOld { words.append("--revoke-old") }
        if let repeated { words += ["--repeat-attempt", "\(repeated.change):\(repeated.number)"] }
        return words.joined(separator: " ")
    }

    /// Asks a question, in a terminal only.
    private func ask(_ question: String, _ command: String, orShow state: (RenewalPlanStatus, [UInt8])?) throws {
        guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else {
            if let (state, bytes) = state { try format.show(bytes, RotatePlanCommand.text(state)) }
            throw CommandFailure(
                .tryAgainLater, state?.0.next ?? "Nothing was started.",
                more: ["Go on in a terminal, which asks first: \(command)"])
        }
        try Descriptor.write(Array("\(question) Type yes: ".utf8), to: STDERR_FILENO)
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
            + (state.nextChange?.excludedNodes.map { ["excluding \($0.joined(separator: ", "))"] } ?? [])
        return remarks.isEmpty ? change : "\(change) (\(remarks.joined(separator: "; ")))"
    }

    private func advice(_ state: RenewalPlanStatus, _ command: String) -> String {
        switch state.step {
        case "make_test_payment": return "Then go on: \(command) --test-payment-made"
        case "decide_repeat":
            return "To repeat it: \(self.command(state.renewal, repeating: state.repeatable))"
        default: return "Go on later: \(command)"
        }
    }
}
