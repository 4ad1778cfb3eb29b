import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings

/// A key's type in the command line's spelling.
enum KeyTypeOption: String, ExpressibleByArgument, CaseIterable {
    case ec
    case rsa

    /// The type in the API's spelling.
    var name: String { rawValue.uppercased() }
}

/// A key's use in the command line's spelling.
enum KeyUseOption: String, ExpressibleByArgument, CaseIterable {
    case processing
    case identity

    /// The use in the API's spelling; nil for the API's default.
    var name: String? { self == .processing ? nil : rawValue }

    static let help = ArgumentHelp(
        "processing (opens payments) or identity (signs for merchant sessions).", valueName: "processing|identity")
}

/// A wallet in the command line's spelling.
enum WalletOption: String, ExpressibleByArgument, CaseIterable {
    case applePay = "apple-pay"
    case googlePay = "google-pay"

    /// The use of a Google Pay key in the API's spelling; nil for Apple Pay, whose keys have several.
    var use: String? { self == .googlePay ? rawValue : nil }

    static let help = ArgumentHelp(
        "The wallet whose payments the key opens, for ever.", valueName: "apple-pay|google-pay")
}

struct KeyGenerateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "generate",
        abstract: "Makes a merchant's key pair inside the HSM token, which it never leaves.",
        discussion: """
            The first steps for a new merchant; for one that has a key already, see rotate start.

              paytokenctl key generate --merchant-identifier merchant.com.example
              paytokenctl csr create 9c1185a5 --out merchant.certSigningRequest
              paytokenctl certificate import apple_pay.cer

            Between the second and the third, upload the request in Apple's developer portal as a Payment Processing \
            Certificate. The key opens nothing before its certificate is imported. ec is for EC_v1, which all regions \
            but a few use; rsa for RSA_v1.

            --use identity makes the key of a Merchant Identity Certificate, with which a merchant's server asks Apple \
            for sessions of Apple Pay on the web: RSA, it signs for those and never decrypts. Upload its request as a \
            Merchant Identity Certificate. A key's use never changes.

              paytokenctl key generate --merchant-identifier merchant.com.example \\
                  --use identity

            --wallet google-pay makes a key for Google Pay: EC, without a certificate. Prove it on each host, add its public \
            key in Google's business console, and state that. From then on it serves: put its public key into your site's \
            and apps' payment requests.

              paytokenctl key generate --wallet google-pay \\
                  --merchant-identifier BCR2DN4TEXAMPLE
              paytokenctl key prove 9c1185a5
              paytokenctl key public-key 9c1185a5
              paytokenctl rotate added 9c1185a5

            The key is in one HSM token only. Several HSM tokens hold the same key only if the vendor's tools clone \
            it, or if a key from a file is imported into each.

            Run again after success, the command makes another key that waits for a certificate (rotate start uses the \
            waiting one instead). Remove keys that are not needed with key destroy.

            If the worker process dies meanwhile, nothing is lost: the command continues, or the next one for this \
            merchant finishes it. If the daemon itself ends at that moment, a key may be left in the HSM token that \
            key list shows as external: it is never used, and the same command makes another.
            """)

    @Option(
        help: ArgumentHelp(
            "The merchant identifier, as in Apple's portal; for Google Pay, the merchant's at Google.", valueName: "id")
    )
    var merchantIdentifier: String

    @Option(help: KeyUseOption.help)
    var use: KeyUseOption = .processing

    @Option(help: WalletOption.help)
    var wallet: WalletOption = .applePay

    @Option(
        help: ArgumentHelp(
            "ec (P-256) or rsa (2048 bits). Default: ec for processing, rsa for identity.", valueName: "ec|rsa"))
    var type: KeyTypeOption?

    @Option(
        help: ArgumentHelp(
            "An HSM token by its name in the configuration; required if there are several.", valueName: "name"))
    var token: String?

    @OptionGroup var change: ChangeOptions

    func validate() throws {
        guard !merchantIdentifier.allSatisfy(\.isWhitespace) else {
            throw ValidationError("--merchant-identifier is blank; give the identifier as in Apple's portal.")
        }
        guard use == .processing || type != .ec else {
            throw ValidationError("An identity key is RSA; leave out --type.")
        }
        guard wallet == .applePay || use == .processing && type != .rsa else {
            throw ValidationError("A Google Pay key is EC and opens payments; leave out --use and --type.")
        }
    }

    func run() async throws {
        let request = KeyGenerationRequest(
            merchantIdentifier: merchantIdentifier, use: wallet.use ?? use.name,
            type: type?.name, token: token)
        if change.dryRun.isDryRun {
            try await change.post(
                "/v1/keys", request, for: KeyGenerationDryRun.self, dryRunSays: "the key can be made"
            ) { answer in
                Table(pairs: [
                    ("Merchant", answer.merchantIdentifier), ("Use", answer.use), ("Algorithm", answer.algorithm),
                    ("Token", answer.token),
                ]).text
            }
        } else {
            try await change.post("/v1/keys", request, for: KeySummary.self, dryRunSays: nil) {
                MerchantKeyTable.one($0).text
            }
        }
    }
}

struct CSRCreateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Writes a certificate request for a key, signed inside the HSM token.",
        discussion: """
            PKCS#10 in PEM, on standard output or in a new file; the file's name may end in .certSigningRequest, which \
            Apple's developer portal asks for. Upload it there under the merchant identifier, as a Payment Processing \
            Certificate or, for an identity key, as a Merchant Identity Certificate, and import the certificate.

              paytokenctl csr create 9c1185a5 --out merchant.certSigningRequest
              openssl req -in merchant.certSigningRequest -noout -verify -text
              paytokenctl certificate import apple_pay.cer
            """)

    @OptionGroup var key: KeyArgument
    @OptionGroup var out: RequestFileOption
    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let file = try out.newFile(dryRun)
        let (answer, _) = try await socket.connection.post(
            dryRun.target("/v1/keys/\(key.key.hex)/csr"), EmptyRequest(), for: CertificateRequestAnswer.self)
        if let request = answer.csr { try out.write(request, to: file) }
        dryRun.report("the request can be made")
    }
}

/// The file for a certificate request.
struct RequestFileOption: ParsableArguments {
    @Option(help: ArgumentHelp("A new file for the request instead of standard output.", valueName: "file"))
    var out: String?

    /// Creates the file before the certificate request is made. Otherwise a request could be made that cannot be
    /// stored.
    func newFile(_ dryRun: DryRunOption) throws -> NewFile? {
        guard let out else { return nil }
        let file = try NewFile(out)
        if dryRun.isDryRun { file.discard() }
        return file
    }

    func write(_ request: String, to file: NewFile?) throws {
        guard let file, let out else { return try Console.output(request) }
        try file.write(Array(request.utf8))
        try file.publish()
        Console.error("Wrote \(out).")
    }
}
