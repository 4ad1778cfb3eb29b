import ArgumentParser
import CommandOutput
import DaemonAPI
import Foundation

struct KeyProveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prove", abstract: "Has each HSM token that shows a key prove that it can use it.",
        discussion: """
            The daemon encrypts a random message to the key's certificate as a wallet does, and each HSM token opens it; \
            an identity key signs a made-up TLS handshake. The daemon compares the result and returns no part of it. \
            Without a certificate it uses the public key and the merchant identifier.

            Each HSM token's result is in the record (key_proof), and is one use of the key. It is the only use that a \
            key has before its activation. A suspended, compromised or destroyed key is refused.

            Exit status: 0 every HSM token that shows the key proved it; 1 one did not, or the key is refused. HSM \
            tokens that do not show the key are named on standard error. While the key is being renewed (rotate renew), \
            and for a Google Pay key before rotate added, one that shows the key to be replaced and not the new one counts as a failure.

              paytokenctl key prove 9c1185a5
              paytokenctl key prove 9c1185a5 --output json |
                  jq '.items[] | select(.proved | not)'
            """)

    @OptionGroup var key: KeyArgument
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let (answer, bytes) = try await socket.connection.post(
            "/v1/keys/\(key.key.hex)/proofs", EmptyRequest(), for: KeyProofAnswer.self)
        try format.show(bytes, Self.table(answer).text)
        if !answer.withoutKey.isEmpty {
            Console.error("The key is not in: \(answer.withoutKey.joined(separator: ", ")).")
        }
        if !answer.proved { throw CommandFailure(.no, "The key is not proved in every HSM token that needs it.") }
    }

    private static func table(_ answer: KeyProofAnswer) -> Table {
        var table = Table(columns: [
            "TOKEN", "PROVED", Table.Column("TIER", importance: 1), Table.Column("RECORD", importance: 2),
            Table.Column("REASON", shortening: .words),
        ])
        for item in answer.items {
            table.add([
                item.token, item.proved ? "yes" : "no", item.tier ?? "-",
                item.audit.map { "\($0.node) \($0.sequence)" } ?? "-",
                [item.code, item.message].compactMap(\.self).joined(separator: ": "),
            ])
        }
        return table
    }
}
