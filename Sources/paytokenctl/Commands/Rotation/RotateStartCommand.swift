import ArgumentParser
import DaemonAPI

struct RotateStartCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "start",
        abstract: "Makes a merchant's new key and writes its certificate request.",
        discussion: """
            The old key goes on serving. Upload the request in Apple's developer portal as a Payment Processing \
            Certificate of this merchant, download the certificate, and do not activate it yet: rotate import comes \
            first.

              paytokenctl rotate start merchant.com.example \\
                  --out new.certSigningRequest

            Repeated before the certificate is in, it makes no second key and writes the request for the first one \
            again. The new key is of the old one's type and in its token, unless told otherwise, and in one token only: \
            where several tokens hold the old one, the output says which of them lack the new one.
            """)

    @Argument(help: ArgumentHelp("The merchant identifier.", valueName: "merchant"), completion: .merchant)
    var merchant: String

    @Option(help: ArgumentHelp("ec or rsa; default: as the merchant's key is now.", valueName: "ec|rsa"))
    var type: KeyTypeOption?

    @Option(
        help: ArgumentHelp(
            "A token by its name in the configuration; default: where the key is now.", valueName: "name"))
    var token: String?

    @OptionGroup var out: RequestFileOption
    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let file = try out.newFile(dryRun)
        let (answer, bytes) = try await socket.connection.post(
            dryRun.target("/v1/rotations"),
            RotationStartRequest(merchantIdentifier: merchant, type: type?.name, token: token),
            for: RotationStartAnswer.self)
        if let request = answer.csr, file != nil || format.output == .table { try out.write(request, to: file) }
        if format.output == .json { try Console.output(json: bytes) }
        if dryRun.isDryRun {
            dryRun.report(answer.created ? "the new key can be made" : "the request of the waiting key can be made")
            return
        }
        if !answer.created { Console.error("No key was made: this one waits for its certificate already.") }
        // Standard output is the request's, or the JSON's.
        if format.output == .table, file != nil {
            try Console.output(RotationText.one(answer.rotation))
        } else {
            for remark in answer.rotation.remarks { Console.error(remark) }
            Console.error("Next: \(answer.rotation.next)")
        }
    }
}
