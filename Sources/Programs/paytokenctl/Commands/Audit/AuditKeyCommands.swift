import ArgumentParser
import AuditChain
import CommandOutput
import DaemonAPI

struct AuditPublicKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "public-key",
        abstract: "Prints the public key of the record's checkpoints, in PEM.",
        discussion: """
            An auditor gets it once, from a trusted person, and compares its keyId over another channel: the SHA-256 \
            of the key's DER. Several keys are printed one after the other, the newest first; a file with all of them \
            is what audit verify and scripts/verify-audit take.

              paytokenctl audit public-key > key.pem
              paytokenctl audit public-key --output json | jq -r '.keys[0].keyId'
              openssl pkey -pubin -in key.pem -outform DER | sha256sum

            --node shows another node's keys, or all, each after a line with its node's name. They come from the \
            shared ledger, where the server's superuser could change them: get each from its own host, or compare the \
            keyId.

              paytokenctl audit public-key --node all
            """)

    @OptionGroup var whose: NodeOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let (answer, bytes) = try await socket.connection.send(
            .get("/v1/audit/public-key" + QueryText.of(whose.query)), for: AuditPublicKeyAnswer.self)
        if let nodes = answer.nodes {
            for node in nodes where !node.isOwn {
                Console.error(
                    "Node \(node.node)'s key comes from the ledger. Compare its keyId with that host's output of: paytokenctl audit "
                        + "public-key --output json")
            }
            let text = try Self.text(nodes)
            try format.show(bytes, text)
            return
        }
        // The keys are parsed and encoded again, so that nothing but keys is printed.
        let pem = try VerificationInputs.keys(answer.keys).map(\.pem).joined()
        try format.show(bytes, pem)
    }

    /// Each node's name, followed by its keys; PEM parsers ignore the text around the keys.
    private static func text(_ nodes: [AuditPublicKeyAnswer.Node]) throws -> String {
        var text = ""
        for node in nodes {
            text += "# node \(Printable.text(node.node))\n"
            if !node.keys.isEmpty { text += try VerificationInputs.keys(node.keys).map(\.pem).joined() }
        }
        return text
    }
}

struct AuditChangeKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "change-key",
        abstract: "Puts another audit key into service; needs a second person.",
        discussion: """
            A new key is made in the HSM token and signs the record's checkpoints from then on. Signatures of the \
            previous key stay valid, so auditors need both public keys: give them the new one, and keep the old.

              paytokenctl audit change-key --reason "yearly change" --dry-run
              paytokenctl audit change-key --reason "yearly change"
              paytokenctl audit public-key > keys.pem

            --token has another HSM token seal the record from then on. The present one must still be available, \
            because its key signs the announcement of the new one.

              paytokenctl audit change-key --token hsm2 --reason "the old HSM is replaced"

            --lost is for an HSM token that seals and is lost for good. The new key then has no announcement by the \
            old one, and the record says so: hand auditors the new public key in person. It is refused while an HSM \
            token of the configuration has the old key. If the daemon has not seen the old HSM token since its start, \
            payment tokens signed before a fence are refused, as after ledger accept-restore.

              paytokenctl audit change-key --lost --token hsm2 --reason "the old HSM burnt"
            """)

    @Option(help: "The configured name of the HSM token that seals from then on. Default: the one that seals now.")
    var token: String?

    @Flag(help: "The HSM token that seals now is lost for good.")
    var lost = false

    @OptionGroup var why: ReasonOption
    @OptionGroup var change: ChangeOptions

    func run() async throws {
        let answer = try await change.post(
            "/v1/audit/key", AuditKeyChangeRequest(reason: why.reason, token: token, lost: lost ? true : nil),
            for: AuditKeyChangeAnswer.self,
            dryRunSays: "the audit key can be changed"
        ) { answer in
            Table(pairs: [
                ("Status", answer.status), ("Signed until now", answer.from), ("Signs now", answer.to ?? answer.from),
            ]).text
        }
        if answer.to != nil {
            Console.error(lost ? NextStep.giveAuditorsTheKeyInPerson : NextStep.giveAuditorsTheKey)
        }
    }
}
