import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation

struct ApprovalListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Lists the operations that wait, or waited, for a second person.")

    @OptionGroup var width: WideOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let (list, bytes) = try await socket.connection.send(
            .get("/v1/approvals"), for: ListAnswer<ApprovalSummary>.self)
        switch format.output {
        case .json: try Console.output(json: bytes)
        case .table:
            guard !list.items.isEmpty else { return Console.error("Nothing waits for a second person.") }
            let areOfNodes = list.items.contains { $0.node != nil }
            var table = Table(
                columns: [
                    "APPROVAL", "OPERATION", "STATUS", Table.Column("KEY", importance: 4),
                    Table.Column("MERCHANT", importance: 3, shortening: .beginning),
                    Table.Column("REQUESTED BY", importance: 6, shortening: .beginning),
                ]
                    + (areOfNodes ? [Table.Column("NODE", importance: 2)] : [])
                    + [
                        Table.Column("EXPIRES", importance: 5),
                        Table.Column("REASON", importance: 1, shortening: .words),
                    ])
            for item in list.items {
                let asked = [
                    item.approval,
                    item.operation + (item.token.map { " (\($0)\(item.lost == true ? ", key lost" : ""))" } ?? ""),
                    item.status,
                    item.publicKeyHash.map(KeyReference.short(base64:)) ?? "-",
                    item.merchantIdentifier ?? "-", Self.requester(item),
                ]
                table.add(
                    asked + (areOfNodes ? [item.node ?? "-"] : []) + [RFC3339.string(item.expires), item.reason])
            }
            try Console.output(table, width)
        }
    }

    /// The rule's name and the account, and the account of the original login if it differs.
    private static func requester(_ item: ApprovalSummary) -> String {
        let login = item.requesterLoginUid.map { ", login \($0)" } ?? ""
        return "\(item.requestedBy) (\(item.requester)\(login))"
    }
}

/// The arguments of every command that decides about an approval.
struct DecisionOptions: ParsableArguments {
    @Argument(
        help: ArgumentHelp("The approval's identifier, as in approval list.", valueName: "id"), completion: .approval)
    var approval: String

    @Option(help: ArgumentHelp("The reason, for the record; at most 200 characters.", valueName: "text"))
    var reason: String?

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        guard !approval.isEmpty, Hexadecimal.isLowerCase(approval.utf8) else {
            throw ValidationError("An approval is named by 16 lower-case hex characters; see approval list.")
        }
        if let reason { try ReasonOption.check(reason) }
    }

    func post(_ decision: String) async throws {
        let (answer, bytes) = try await socket.connection.post(
            "/v1/approvals/\(approval)", ApprovalDecisionRequest(decision: decision, reason: reason),
            for: ApprovalDecisionAnswer.self)
        try format.show(bytes, Table(pairs: Self.pairs(answer)).text)
    }

    private static func pairs(_ answer: ApprovalDecisionAnswer) -> [(String, String)] {
        let approval = answer.approval
        var pairs = [
            ("Approval", approval.approval), ("Operation", approval.operation), ("Status", approval.status),
            ("Key", approval.publicKeyHash ?? "-"),
        ]
        if let key = answer.key {
            pairs.append(("Key's state", key.state))
        } else {
            pairs.append(("State when asked", approval.keyState ?? "-"))
        }
        if let node = approval.node { pairs.append(("Node", node)) }
        if approval.status == "approved" {
            pairs.append(("Next", NextStep.afterApproval(of: approval)))
        }
        return pairs
    }
}

struct ApprovalApproveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve", abstract: "Approves another person's operation.",
        discussion: """
            Three kinds of operation wait for their requester, who repeats the same command with --approval ID before the \
            approval expires: a key import, the adoption of a Google Pay key, and a change at Apple by rotate renew. All \
            others are carried out at once; with several hosts, an operation on another host's own HSM token, record or \
            clock by that host, within seconds.

              paytokenctl approval approve 0a1b2c3d4e5f6071
            """)

    @OptionGroup var options: DecisionOptions

    func run() async throws { try await options.post("approve") }
}

struct ApprovalRejectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reject", abstract: "Rejects a requested operation.",
        discussion: """
              paytokenctl approval reject 0a1b2c3d4e5f6071 --reason "not this key"
            """)

    @OptionGroup var options: DecisionOptions

    func run() async throws { try await options.post("reject") }
}

struct ApprovalWithdrawCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "withdraw", abstract: "Withdraws your own request.",
        discussion: """
              paytokenctl approval withdraw 0a1b2c3d4e5f6071
            """)

    @OptionGroup var options: DecisionOptions

    func run() async throws { try await options.post("withdraw") }
}
