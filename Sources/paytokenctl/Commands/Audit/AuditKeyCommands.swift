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
        // The keys as this program has read them, so that nothing but keys is printed.
        try format.show(bytes, answer.keys.compactMap { AuditDigest(hex: $0.keyId).flatMap { keys[$0] }?.pem }.joined())
    }
}

struct AuditChangeKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "change-key",
        abstract: "Puts another audit key into service; needs a second person.",
        discussion: """
            A new key is made in the token and signs the record's checkpoints from then on. What the former one signed \
            stays valid, so auditors need both public keys: give them the new one, and keep the old.

              paytokenctl audit change-key --reason "yearly change" --dry-run
              paytokenctl audit change-key --reason "yearly change"
              paytokenctl audit public-key > keys.pem
            """)

    @OptionGroup var why: ReasonOption
    @OptionGroup var change: ChangeOptions

    func run() async throws {
        let answer = try await change.post(
            "/v1/audit/key", ReasonRequest(reason: why.reason), for: AuditKeyChangeAnswer.self,
            dryRunSays: "the audit key can be changed"
        ) { answer in
            Table(pairs: [
                ("Status", answer.status), ("Signed until now", answer.from), ("Signs now", answer.to ?? answer.from),
            ]).text
        }
        if answer.to != nil { Console.error(NextStep.giveAuditorsTheKey) }
    }
}
