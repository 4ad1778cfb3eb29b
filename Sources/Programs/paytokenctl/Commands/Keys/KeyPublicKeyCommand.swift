import ArgumentParser
import CommandOutput
import DaemonAPI

struct KeyPublicKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "public-key",
        abstract: "Prints a key's public half in base64.",
        discussion: """
            An EC key is printed as its uncompressed point of 65 bytes, the form of Google's console and of a payment \
            request's publicKey. An RSA key, or any key with --spki, is printed as its SubjectPublicKeyInfo in DER.

              paytokenctl key public-key 9c1185a5
              paytokenctl key public-key 9c1185a5 --spki | base64 -d |
                  openssl pkey -pubin -inform DER
            """)

    @OptionGroup var key: KeyArgument
    @Flag(help: "The SubjectPublicKeyInfo instead of the point.")
    var spki = false
    @OptionGroup var read: ReadOptions

    func run() async throws {
        try await read.show(.get("/v1/keys/\(key.key.hex)/public-key"), as: PublicKeyAnswer.self) { answer in
            "\((spki ? nil : answer.point) ?? answer.subjectPublicKeyInfo)\n"
        }
    }
}
