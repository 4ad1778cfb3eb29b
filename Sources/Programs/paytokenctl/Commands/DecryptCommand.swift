import ArgumentParser
import CLinux
import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import StrictJSON

struct DecryptCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "decrypt",
        abstract: "Verifies and decrypts a payment token.",
        discussion: """
            The file is a PKPaymentToken or just its paymentData, in JSON, or a payment token of Google Pay; - is standard input. \
            This releases the payment token: a second attempt is refused as a replay, unless the same user repeats it \
            with the same --reference.

            A payment token of Google Pay is recognised by its members. It names no amount, so --amount and --currency \
            are your statement of what you will charge, which is recorded and compared with nothing.

            The account number (except its last four digits) and the cryptogram are masked unless --reveal is given.

              paytokenctl decrypt token.json
              paytokenctl decrypt token.json --reference order-1234 \\
                  --expect-currency 840 --expect-amount 1099
              paytokenctl decrypt - --output json < token.json | jq .paymentData
              paytokenctl decrypt google.json --merchant-identifier BCR2DN4TEXAMPLE \\
                  --amount 10.99 --currency EUR
            """)

    @Argument(
        help: ArgumentHelp(
            "A PKPaymentToken or its paymentData, or a payment token of Google Pay; - for standard input.",
            valueName: "file"),
        completion: .file())
    var file: String

    @Option(help: ArgumentHelp("Your name for this payment, 1 to 128 printable characters.", valueName: "text"))
    var reference: String?

    @Option(help: ArgumentHelp("The ISO 4217 number that the payment token must have, such as 840.", valueName: "code"))
    var expectCurrency: String?

    @Option(
        help: ArgumentHelp(
            "The amount that the payment token must have, in its own unit, such as 1099.", valueName: "number"))
    var expectAmount: String?

    @Option(help: ArgumentHelp("The merchant identifier that the payment token must be for.", valueName: "id"))
    var expectMerchant: String?

    @Option(help: ArgumentHelp("A file with the original application data.", valueName: "file"), completion: .file())
    var expectApplicationData: String?

    @Option(help: ArgumentHelp("Google Pay: the merchant's identifier at Google, without merchant:.", valueName: "id"))
    var merchantIdentifier: String?

    @Option(help: ArgumentHelp("Google Pay: the amount that you will charge, such as 10.99.", valueName: "number"))
    var amount: String?

    @Option(help: ArgumentHelp("Google Pay: the amount's currency (ISO 4217), such as EUR.", valueName: "code"))
    var currency: String?

    @Option(
        help: ArgumentHelp(
            "Google Pay: the only kind of card number that you take, CRYPTOGRAM_3DS or PAN_ONLY.", valueName: "kind"))
    var expectAuthMethod: String?

    @Flag(help: "Shows account number and cryptogram in full.")
    var reveal = false

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: PaymentsSocketOption

    func validate() throws {
        if let reference, !DecryptRequest.isReference(reference) {
            throw ValidationError("--reference has 1 to 128 printable ASCII characters.")
        }
        if let expectAmount, JSONNumber(text: expectAmount) == nil {
            throw ValidationError("--expect-amount is a number such as 1099, and not '\(expectAmount)'.")
        }
    }

    func run() async throws {
        // This process's memory will contain account numbers.
        _ = paytokend_forbid_dumps()
        let paymentToken = try InputFile.readPaymentToken(file)
        let connection = socket.connection
        let (request, read): (ClientRequest, ([UInt8]) -> JSONObject?)
        if InputFile.isGooglePay(paymentToken: paymentToken) {
            request = .post("/v1/google-pay/decrypt", body: try googlePayBody(paymentToken: paymentToken))
            read = { GooglePayDecryptAnswer.read($0)?.members }
        } else {
            try refuse(googlePayOptions, InputFile.isNoGooglePay)
            let applicationData = try expectApplicationData.map { path in try InputFile.read(path) }
            request = .post(
                "/v1/decrypt", body: requestBody(paymentToken: paymentToken, applicationData: applicationData))
            read = { DecryptAnswer.read($0)?.members }
        }
        let answer = try await connection.send(request)
        guard let members = read(answer.body) else { throw connection.unexpectedAnswer(answer.status) }
        // With --reveal, the output is the daemon's response, byte for byte.
        if reveal { return try format.show(answer.body, Self.text(members)) }
        let masked = Self.masked(members)
        try format.show(JSONValue.object(masked).compact, Self.text(masked))
    }

    private static func text(_ answer: JSONObject) -> String { Table(pairs: Flattening.pairs(.object(answer))).text }

    /// The response with its payment data masked; the other members contain nothing secret.
    private static func masked(_ answer: JSONObject) -> JSONObject {
        let members = answer.members.map { member in
            member.name == "paymentData"
                ? (name: member.name, value: PaymentDataMask.masked(member.value)) : member
        }
        return JSONObject(members) ?? JSONObject()
    }

    func requestBody(paymentToken: [UInt8], applicationData: [UInt8]?) -> [UInt8] {
        var expected: [(name: String, value: JSONValue)] = []
        if let expectCurrency { expected.append(("currencyCode", .string(expectCurrency))) }
        if let amount = expectAmount.flatMap(JSONNumber.init(text:)) {
            expected.append(("transactionAmount", .number(amount)))
        }
        if let applicationData { expected.append(("applicationData", .string(Base64.encode(applicationData)))) }
        if let expectMerchant { expected.append(("merchantIdentifier", .string(expectMerchant))) }
        return DecryptRequest.body(
            paymentToken: paymentToken, expected: expected.isEmpty ? nil : JSONObject(expected), reference: reference)
    }

    private var googlePayOptions: [(name: String, value: String?)] {
        [
            ("--merchant-identifier", merchantIdentifier), ("--amount", amount), ("--currency", currency),
            ("--expect-auth-method", expectAuthMethod),
        ]
    }

    private func refuse(_ options: [(name: String, value: String?)], _ kind: String) throws {
        let given = options.filter { $0.value != nil }.map(\.name)
        guard given.isEmpty else {
            throw CommandFailure(
                .usage, "\(InputFile.name(file)) \(kind); leave out \(given.joined(separator: ", ")).")
        }
    }

    func googlePayBody(paymentToken: [UInt8]) throws -> [UInt8] {
        try refuse(
            [
                ("--expect-currency", expectCurrency), ("--expect-amount", expectAmount),
                ("--expect-merchant", expectMerchant), ("--expect-application-data", expectApplicationData),
            ], "is a payment token of Google Pay")
        guard let merchantIdentifier, let amount, let currency else {
            let missing = googlePayOptions.prefix(3).filter { $0.value == nil }.map(\.name)
            throw CommandFailure(
                .usage,
                "\(InputFile.name(file)) is a payment token of Google Pay; give \(missing.joined(separator: ", ")).")
        }
        return GooglePayDecryptRequest.body(
            paymentToken: paymentToken, merchantIdentifier: merchantIdentifier, amount: amount, currency: currency,
            authMethod: expectAuthMethod, reference: reference)
    }
}
