import ArgumentParser
import DaemonAPI
import Encodings
import Foundation

struct RotateStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Shows how far rotations have come, and what is to be done next.",
        discussion: """
            Without a merchant, all rotations under way. What this host opened within the last hour is counted from its \
            ledger, each transaction once; only that says that a key is in use. UNVERIFIED/H are tokens that named the \
            key and were refused by this daemon since its start: Apple does not sign which key a token names. Other \
            hosts have their own ledgers and are not counted: ask on each.

              paytokenctl rotate status
              paytokenctl rotate status merchant.com.example
              paytokenctl rotate status --output json | jq -r '.[].next'
            """)

    @Argument(help: ArgumentHelp("The merchant identifier.", valueName: "merchant"), completion: .merchant)
    var merchant: String?

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let path = "/v1/rotations" + (merchant.map { "/" + PercentEncoding.encoded($0) } ?? "")
        let (list, bytes) = try await socket.connection.send(.get(path), for: ListAnswer<RotationStatus>.self)
        switch format.output {
        case .json: try Console.output(json: ListBytes.items(bytes))
        case .table where list.items.isEmpty: Console.error("No rotation is under way.")
        case .table where merchant == nil && list.items.count > 1:
            try Console.output(RotationText.several(list.items))
        case .table: try Console.output(list.items.map(RotationText.one).joined(separator: "\n"))
        }
    }
}
