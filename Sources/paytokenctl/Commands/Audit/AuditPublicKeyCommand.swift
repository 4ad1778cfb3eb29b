import ArgumentParser
import AuditChain
import DaemonAPI

struct AuditPublicKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "public-key",
        abstract: "Prints the public key of the record's checkpoints, in PEM.",
        discussion: """
            An auditor gets it once, from somebody to be trusted, and compares its keyId over another way: it is the \
            SHA-256 of the key's DER. Several keys are printed one after the other, the newest first; a file with all \
            of them is what audit verify and scripts/verify-audit take.

              paytokenctl audit public-key > key.pem
              paytokenctl audit public-key --output json | jq -r '.keys[0].keyId'
              openssl pkey -pubin -in key.pem -outform DER | sha256sum
            """)

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let (answer, bytes) = try await socket.connection.send(
            .get("/v1/audit/public-key"), for: AuditPublicKeyAnswer.self)
        let keys = try VerificationInputs.keys(answer)
        switch format.output {
        case .json: try Console.output(json: bytes)
        // As this program reads them, so that nothing but keys is printed.
        case .table:
            try Console.output(
                answer.keys.compactMap { AuditDigest(hex: $0.keyId).flatMap { keys[$0] }?.pem }.joined())
        }
    }
}
