import ArgumentParser
import DaemonAPI
import Encodings

struct CSRCreateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Writes a certificate request for a key, signed inside the token.",
        discussion: """
            PKCS#10 in PEM, on standard output or in a new file; the file's name may end in .certSigningRequest, which \
            Apple's developer portal asks for. Upload it there under the merchant identifier, as a Payment Processing \
            Certificate, and import what you get.

              paytokenctl csr create 9c1185a5 --out merchant.certSigningRequest
              openssl req -in merchant.certSigningRequest -noout -verify -text
              paytokenctl certificate import apple_pay.cer
            """)

    @Argument(
        help: ArgumentHelp("The key: its publicKeyHash in base64, or 8 to 64 characters of hex.", valueName: "key"),
        completion: .key, transform: KeyReference.parse)
    var key: KeyReference

    @OptionGroup var out: RequestFileOption
    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let file = try out.newFile(dryRun)
        let (answer, _) = try await socket.connection.post(
            dryRun.target("/v1/keys/\(key.hex)/csr"), EmptyRequest(), for: CertificateRequestAnswer.self)
        if let request = answer.csr { try out.write(request, to: file) }
        dryRun.report("the request can be made")
    }
}

/// Where a certificate request goes.
struct RequestFileOption: ParsableArguments {
    @Option(help: ArgumentHelp("A new file for the request instead of standard output.", valueName: "file"))
    var out: String?

    /// The file is made first: a request is not asked for that has nowhere to go.
    func newFile(_ dryRun: DryRunOption) throws(CommandFailure) -> NewFile? {
        guard let out else { return nil }
        let file = try NewFile(out)
        if dryRun.isDryRun { file.discard() }
        return file
    }

    func write(_ request: String, to file: NewFile?) throws(CommandFailure) {
        guard let file, let out else { return try Console.output(request) }
        try file.write(Array(request.utf8))
        try file.publish()
        Console.error("Wrote \(out).")
    }
}
