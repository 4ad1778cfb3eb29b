import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import StrictJSON

struct RotatePlanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Shows the next step of a merchant's renewal, and what must be so before it.",
        discussion: """
            Reads Apple's list as rotate check does, and the recorded proofs of the new key on all nodes of the ledger. \
            Before Apple certifies the new key, every HSM token of this node that shows the old key must show the new one, and \
            every required node must have proved the new key within the last 24 hours (key prove). Before its certificate \
            is activated, these nodes must have proved it with the certificate. The plan says if wallets may use the new \
            certificate as soon as Apple has issued it, and if they use it already. The command changes nothing here or at \
            Apple, and needs the role audit. rotate renew takes the steps; without it, a person takes each one, in the \
            portal or with the other commands.

            A node that is down delays the plan. --exclude-node shows the plan without it; payments with the new key \
            fail there until it has proved the key.

              paytokenctl rotate plan merchant.com.example
              paytokenctl rotate plan merchant.com.example --exclude-node host-c
              paytokenctl rotate plan merchant.com.example --output json | jq -r '.[].step'

            Exit status: 0 the plan is shown; 1 if something must be repaired first; 75 Apple's list was not read: try again later. \
            This has never been tried against Apple's API, only against a simulator of its published specification.
            """)

    @Argument(help: ArgumentHelp("The merchant identifier.", valueName: "merchant"), completion: .merchant)
    var merchant: String

    @Option(help: ArgumentHelp("A node without which the plan goes on; repeat it for several.", valueName: "node"))
    var excludeNode: [String] = []

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        try await Self.show(merchant, excluding: excludeNode, format, socket.connection)
    }

    /// Reads Apple's list and shows the plan.
    static func show(
        _ merchant: String, excluding excludeNode: [String], _ format: OutputOptions, _ connection: DaemonConnection
    ) async throws {
        try await readList(merchant, connection)
        let (items, elements) = try await plans(merchant, excluding: excludeNode, connection)
        try format.show(JSONValue.array(elements).compact, items.map(Self.text).joined(separator: "\n"))
        if items.contains(where: { $0.step == "stop" }) { throw CommandFailure(.no, nil) }
    }

    /// Has the daemon read Apple's list.
    static func readList(_ merchant: String, _ connection: DaemonConnection) async throws {
        _ = try await RotateCheckCommand.request(merchant, connection)
        let read = try await RotateCheckCommand.answer(
            for: merchant, connection, before: .now + RotateCheckCommand.longestRead
        ).answer
        guard read.readAt != nil else {
            throw CommandFailure(
                .tryAgainLater, "Apple's list was not read.", more: [read.fault ?? RotateCheckCommand.lateRead])
        }
    }

    /// Returns the daemon's plans, decoded and as received, so that members from a newer daemon are passed on to programs.
    static func plans(
        _ merchant: String, excluding excludeNode: [String], _ connection: DaemonConnection
    ) async throws -> (items: [RenewalPlanStatus], elements: [JSONValue]) {
        let query =
            excludeNode.isEmpty ? "" : "?excludeNodes=" + PercentEncoding.encoded(excludeNode.joined(separator: ","))
        let answer = try await connection.send(.get("/v1/renewals/\(PercentEncoding.encoded(merchant))\(query)"))
        guard let (list, elements) = ListAnswer<RenewalPlanStatus>.read(answer.body) else {
            throw connection.unexpectedAnswer(answer.status)
        }
        return (list.items, elements)
    }

    /// The plan as text for display.
    static func text(_ plan: RenewalPlanStatus) -> String {
        var text = Table(pairs: [
            ("Merchant", plan.merchantIdentifier), ("Use", plan.use), ("Algorithm", plan.algorithm),
            ("New key", plan.publicKeyHash ?? "-"), ("Apple's list", plan.readAt.map(RFC3339.string) ?? "-"),
        ]).text
        if let rule = plan.startedBy, let uid = plan.starter, let node = plan.startedOn {
            text += RotationText.line("Begun by \(rule) (uid \(uid)) on \(node).")
        }
        if !plan.steps.isEmpty {
            text += "\n" + RotationText.steps(plan.steps, text: \.text)
        }
        if !plan.nodes.isEmpty {
            var nodes = Table(columns: ["NODE", "REQUIRED", "PROVED", "WITH CERTIFICATE", "UP", "LAST SEEN"])
            for node in plan.nodes {
                let marks = [node.required, node.proved, node.provedWithCertificate, node.up].map { $0 ? "yes" : "no" }
                nodes.add([node.node] + marks + [node.lastSeen.map(RFC3339.string) ?? "-"])
            }
            text += "\n" + nodes.text
        }
        if let attempts = plan.attempts, !attempts.isEmpty {
            var table = Table(columns: ["CHANGE", "ATTEMPT", "BEGAN", "OUTCOME", "CODE"])
            for attempt in attempts {
                table.add([
                    attempt.change, String(attempt.number), RFC3339.string(attempt.intendedAt), attempt.outcome,
                    attempt.code ?? "-",
                ])
            }
            text += "\n" + table.text
        }
        return text + RotationText.line("Next: \(plan.next)") + (command(for: plan).map { "See: \($0)\n" } ?? "")
    }

    /// The command with which a person takes the next step; nil if daemons, `rotate renew` or the portal do.
    private static func command(for plan: RenewalPlanStatus) -> String? {
        guard plan.renewal == nil else { return nil }
        switch plan.step {
        case "generate":
            return "paytokenctl rotate start --help; give the command on a host with merchants' keys"
        case "prove", "prove_with_certificate":
            return plan.publicKeyHash.map { "paytokenctl key prove \($0), on each of these nodes" }
        case "read": return "paytokenctl rotate check \(plan.merchantIdentifier)"
        case "import": return "paytokenctl rotate import --help"
        case "finish": return "paytokenctl rotate finish --help"
        default: return nil
        }
    }
}
