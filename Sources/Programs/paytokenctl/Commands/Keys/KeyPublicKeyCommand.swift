import ArgumentParser
import CommandOutput
import DaemonAPI

struct KeyPublicKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "public-key",
        abstract: "Prints a key's public half in base64.",
        discussion: """
            For an EC key the uncompressed point of 65 bytes, which Google's console and the payment request's publicKey \
            take; for an RSA key, or with --spki, the SubjectPublicKeyInfo in DER.

              paytokenctl key public-key 9c1185a5
              paytokenctl key public-key 9c1185a5 --spki | base64 -d | openssl pkey -pubin -inform DER
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
