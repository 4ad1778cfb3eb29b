import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import StrictJSON

struct RotateStartCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "start",
        abstract: "Makes a merchant's new key and writes its certificate request.",
        discussion: """
            The old key continues to serve. Upload the request in Apple's developer portal as a Payment Processing \
            Certificate of this merchant, download the certificate, and do not activate it yet: rotate import comes \
            first.

              paytokenctl rotate start merchant.com.example \\
                  --out new.certSigningRequest

            With --use identity the merchant's identity key is replaced: its request is uploaded as a Merchant \
            Identity Certificate, and the new key signs as soon as that is imported. Up to three can be active.

            Run again before the certificate is imported, it makes no second key but writes the first one's request \
            again. With --wallet google-pay a Google Pay key is made, which has no certificate and no request: prove it, add \
            it in Google's console, and state that with rotate added.

            By default the new key has the old one's type and is made in the same HSM token. It is made in one \
            HSM token only: if several hold the old key, the output says which of them lack the new one.
            """)

    @Argument(help: ArgumentHelp("The merchant identifier.", valueName: "merchant"), completion: .merchant)
    var merchant: String

    @Option(help: KeyUseOption.help)
    var use: KeyUseOption = .processing

    @Option(help: WalletOption.help)
    var wallet: WalletOption = .applePay

    @Option(help: ArgumentHelp("ec or rsa; default: the type of the merchant's current key.", valueName: "ec|rsa"))
    var type: KeyTypeOption?

    @Option(
        help: ArgumentHelp(
            "An HSM token by its name in the configuration; default: the key's current one.", valueName: "name"))
    var token: String?

    @OptionGroup var out: RequestFileOption
    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func validate() throws {
        guard wallet == .applePay || use == .processing && type != .rsa && out.out == nil else {
            throw ValidationError("A Google Pay key is EC and has no request; leave out --use, --type and --out.")
        }
    }

    func run() async throws {
        let file = try out.newFile(dryRun)
        let (answer, bytes) = try await socket.connection.post(
            dryRun.target("/v1/rotations"),
            RotationStartRequest(
                merchantIdentifier: merchant, use: wallet.use ?? use.name, type: type?.name, token: token),
            for: RotationStartAnswer.self)
        if let request = answer.csr, file != nil || format.output == .table { try out.write(request, to: file) }
        if format.output == .json { try Console.output(json: bytes) }
        if dryRun.isDryRun {
            dryRun.report(answer.created ? "the new key can be made" : "a new key waits already")
            return
        }
        if !answer.created {
            Console.error("No key was made: this one waits \(answer.csr == nil ? "" : "for its certificate ")already.")
        }
        // Without a file, and in JSON, standard output contains only the certificate request or the JSON. The next step
        // then goes to standard error.
        if format.output == .table, file != nil || wallet == .googlePay {
            try Console.output(RotationText.one(answer.rotation))
        } else {
            for remark in answer.rotation.remarks { Console.error(remark) }
            Console.error("Next: \(RotationGuidance(answer.rotation).next)")
        }
    }
}

struct RotateImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Imports Apple's certificate for the new key; from then on both keys serve.",
        discussion: """
            X.509 in PEM or DER, as Apple's developer portal gives it, or PKCS#7. Only a certificate of the merchant \
            for the new key is accepted. Once a Payment Processing Certificate is imported, activate it in the portal.

              paytokenctl rotate import apple_pay.cer
            """)

    @OptionGroup var certificate: CertificateArgument
    @OptionGroup var change: ChangeOptions

    func run() async throws {
        let isDryRun = change.dryRun.isDryRun
        try await change.post(
            "/v1/rotations/certificate", certificate.request(), for: RotationImportAnswer.self,
            dryRunSays: "the certificate can be imported"
        ) { isDryRun ? MerchantKeyTable.one($0.key).text : RotationText.one($0.rotation) }
    }
}

struct RotateStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Shows the progress of rotations, and the next step of each.",
        discussion: """
            Without a merchant, it shows all rotations under way. The payment tokens that a key opened within the last \
            hour are counted from the ledger, on all hosts that share it, each transaction once; only this shows that \
            a key is in use. UNVERIFIED/H are payment tokens that named the key and that this daemon refused within \
            the last hour: Apple does not sign which key a payment token names. REFUSED/H are the refused messages that a \
            Google Pay key opened. Hosts with their own ledger are not counted: run the command on each.

            --output json is the daemon's answer: phase, steps and keys as values, and the next step in terms of its \
            API.

              paytokenctl rotate status
              paytokenctl rotate status merchant.com.example
              paytokenctl rotate status --output json | jq -r '.[].phase'
            """)

    @Argument(help: ArgumentHelp("The merchant identifier.", valueName: "merchant"), completion: .merchant)
    var merchant: String?

    @OptionGroup var width: WideOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let path = "/v1/rotations" + (merchant.map { "/" + PercentEncoding.encoded($0) } ?? "")
        let connection = socket.connection
        let answer = try await connection.send(.get(path))
        // The elements as received, so that members from a newer daemon are passed on to programs.
        guard let (list, elements) = ListAnswer<RotationStatus>.read(answer.body) else {
            throw connection.unexpectedAnswer(answer.status)
        }
        switch format.output {
        case .json: try Console.output(json: JSONValue.array(elements).compact)
        case .table where list.items.isEmpty: Console.error("No rotation is under way.")
        case .table where merchant == nil && list.items.count > 1:
            try Console.output(RotationText.several(list.items), width)
        case .table: try Console.output(list.items.map(RotationText.one).joined(separator: "\n"))
        }
    }
}

struct RotateFinishCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "finish",
        abstract: "Deactivates a merchant's old key; late payment tokens are opened until a cut-off.",
        discussion: """
            Refused while the old key still opens payment tokens, and until the new one has opened one: before that, \
            Apple does not encrypt to it yet, most likely because the certificate is not activated. Only payment \
            tokens that the hosts of this ledger opened are counted: run rotate status on each host with its own \
            ledger first. --force finishes all the same. A deactivated key does not become active again.

              paytokenctl rotate finish merchant.com.example
              paytokenctl rotate finish merchant.com.example --cut-off 24h

            When the cut-off has passed, the old key can be destroyed: paytokenctl key destroy. An old identity key (--use \
            identity) signs nothing from now on and has no cut-off.
            """)

    @Argument(help: ArgumentHelp("The merchant identifier.", valueName: "merchant"), completion: .merchant)
    var merchant: String

    @Option(
        help: ArgumentHelp(
            "The time for which the old key still opens late payment tokens: 24h; 0s for none. Default: 7d.",
            valueName: "duration"))
    var cutOff: ShortDuration?

    @Option(help: KeyUseOption.help)
    var use: KeyUseOption = .processing

    @Option(help: ArgumentHelp("ec or rsa, if keys of both are being rotated.", valueName: "ec|rsa"))
    var type: KeyTypeOption?

    @Option(help: ReasonOption.help)
    var reason = "rotated"

    @Flag(help: "Finishes although the old key is in use, or the new one is not.")
    var force = false

    @OptionGroup var change: ChangeOptions

    func validate() throws { try ReasonOption.check(reason) }

    func run() async throws {
        let end: RotationFinishRequest.CutOff =
            switch cutOff?.seconds {
            case nil: .standard
            case .some(0): .now
            case .some(let seconds): .at(Date(timeIntervalSinceNow: seconds))
            }
        try await change.post(
            "/v1/rotations/\(PercentEncoding.encoded(merchant))/finish",
            RotationFinishRequest(use: use.name, type: type?.name, cutOff: end, force: force, reason: reason),
            for: RotationFinishAnswer.self, dryRunSays: "the old key can be deactivated"
        ) { RotationText.retired($0) }
    }
}
