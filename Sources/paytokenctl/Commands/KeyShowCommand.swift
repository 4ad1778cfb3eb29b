import ArgumentParser
import DaemonAPI
import Encodings

struct KeyShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows one merchant key.",
        discussion: """
            KEY is the publicKeyHash: in base64 as it stands in a token's header (44 characters), in hex, or the \
            beginning of the hex, at least 8 characters that only one key has.

              paytokenctl key show 1f8b3c90
              paytokenctl key show AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
            """)

    @Argument(
        help: ArgumentHelp("The key: its publicKeyHash in base64, or 8 to 64 characters of hex.", valueName: "key"),
        completion: .key, transform: KeyReference.parse)
    var key: KeyReference

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let (summary, bytes) = try await socket.connection.send(.get("/v1/keys/\(key.hex)"), for: KeySummary.self)
        try MerchantKeyTable.show(summary, bytes, format.output)
    }
}
