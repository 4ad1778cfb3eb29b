import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings

struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Verifies a payment token's signature. No key is used, and nothing is released.",
        discussion: """
            Checks Apple's signature, its certificate chain, and that the signing time is within the daemon's window. \
            For an old payment token give its own time with --at. The transactionId that is shown is not proven: the \
            signed bytes have no separators, so bytes can be moved between it and the adjacent fields. Only decryption \
            detects that.

            A payment token of Google Pay is recognised by its members, and needs --merchant-identifier, since Google \
            signs it for one merchant. It has no signing time: checked are Google's signatures, and that its keys have \
            not expired.

              paytokenctl verify token.json
              paytokenctl verify token.json --at 2026-01-31T12:00:00Z
              paytokenctl verify google.json --merchant-identifier BCR2DN4TEXAMPLE
            """)

    @Argument(
        help: ArgumentHelp(
            "A PKPaymentToken or its paymentData, or Google Pay's token; - for standard input.", valueName: "file"),
        completion: .file())
    var file: String

    @Option(
        help: ArgumentHelp(
            "Evaluate the window, or the expiry of Google's keys, at this time, in RFC 3339; default now.",
            valueName: "time"))
    var at: String?

    @Option(help: ArgumentHelp("Google Pay: the merchant's identifier at Google, without merchant:.", valueName: "id"))
    var merchantIdentifier: String?

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: PaymentsSocketOption

    func validate() throws {
        if let at, RFC3339.date(at) == nil {
            throw ValidationError("--at is a time of RFC 3339 such as 2026-01-31T12:00:00Z, and not '\(at)'.")
        }
    }

    func run() async throws {
        let paymentToken = try InputFile.readPaymentToken(file)
        let isGooglePay = InputFile.isGooglePay(paymentToken: paymentToken)
        guard isGooglePay == (merchantIdentifier != nil) else {
            throw CommandFailure(
                .usage,
                isGooglePay
                    ? "\(InputFile.name(file)) is a payment token of Google Pay; name its merchant with --merchant-identifier."
                    : "\(InputFile.name(file)) \(InputFile.isNoGooglePay); leave out --merchant-identifier.")
        }
        let body = VerifyRequest.body(paymentToken: paymentToken, at: at, merchantIdentifier: merchantIdentifier)
        if isGooglePay {
            let (answer, bytes) = try await socket.connection.send(
                .post("/v1/google-pay/verify", body: body), for: GooglePayVerifyAnswer.self)
            try format.show(bytes, Self.text(answer))
        } else {
            let (answer, bytes) = try await socket.connection.send(
                .post("/v1/verify", body: body), for: VerifyAnswer.self)
            try format.show(bytes, Self.text(answer))
        }
    }

    static func text(_ answer: GooglePayVerifyAnswer) -> String {
        let pairs = [
            ("Version", answer.version), ("transactionId", answer.transactionId),
            ("Merchant", answer.merchantIdentifier),
        ]
        var chain = Table(columns: ["KEY", "NOT AFTER", "SHA-256"])
        for (role, key) in zip(["intermediate", "root"], answer.chain) {
            chain.add([role, RFC3339.string(key.notAfter), key.sha256])
        }
        return Table(pairs: pairs).text + "\n" + chain.text
    }

    static func text(_ answer: VerifyAnswer) -> String {
        let pairs = [
            ("Version", answer.version), ("transactionId", answer.transactionId),
            ("publicKeyHash", answer.publicKeyHash), ("Signing time", RFC3339.string(answer.signingTime)),
        ]
        var chain = Table(columns: ["CERTIFICATE", "SUBJECT", "NOT BEFORE", "NOT AFTER", "SHA-256"])
        let roles = ["leaf", "intermediate", "root"]
        for (index, certificate) in answer.chain.enumerated() {
            chain.add([
                index < roles.count ? roles[index] : "-", certificate.subject,
                RFC3339.string(certificate.notBefore), RFC3339.string(certificate.notAfter), certificate.sha256,
            ])
        }
        return Table(pairs: pairs).text + "\n" + chain.text
    }
}
