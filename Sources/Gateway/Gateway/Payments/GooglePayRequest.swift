import DaemonAPI
import Encodings
import GooglePayToken
import KeyTypes
import Payments
import Processors
import StrictJSON

/// The part of a payment request that is Google Pay's.
///
/// Google signs neither an amount nor a currency, and the payment token does not name its merchant. The client states all
/// three. paytokend verifies that Google made the payment token for this merchant, and records amount and currency.
/// Nothing can show that they are right.
struct GooglePayRequest: WalletRequest {
    static let wallet = Wallet.googlePay
    /// The members that only these requests have. All are required.
    static let members = ["merchantIdentifier", "amount", "currency"]
    /// The most digits in front of the point. paytokend takes no more.
    private static let maximumWholeDigits = 11

    /// Google's object, or the string with it that Google delivers. paytokend receives it unchanged.
    let paymentToken: JSONValue
    let tokenIdentity: PaymentTokenIdentity
    let merchant: GooglePayMerchant
    let amount: Amount

    /// - Throws: `malformed_request`, `malformed_token`, `unsupported_version`, `element_missing` or `currency_unknown`.
    init(_ object: JSONObject) throws(GatewayRefusal) {
        func value(_ name: String) throws(GatewayRefusal) -> JSONValue {
            guard let value = object[name] else {
                throw GatewayRefusal(
                    .payment(.elementMissing), "\(name) is missing; each payment with Google Pay must state it.",
                    details: name)
            }
            return value
        }
        paymentToken = try value("token")
        guard let merchant = try value("merchantIdentifier").stringValue.flatMap(GooglePayMerchant.init) else {
            throw PaymentRequest.malformedMember(
                "merchantIdentifier",
                "is not a merchant's identifier at Google: 1 to \(GooglePayMerchant.maximumLength) letters, digits, - and _, "
                    + "without the prefix merchant:")
        }
        self.merchant = merchant
        amount = try Amount(
            stated: value("amount"), in: "amount", currency: Currency(stated: value("currency"), in: "currency"))
        // In paytokend's record, a longer number could be an account number.
        guard amount.decimal.prefix(while: { $0 != "." }).count <= Self.maximumWholeDigits else {
            throw PaymentRequest.malformedMember(
                "amount", "has more than \(Self.maximumWholeDigits) digits in front of the point")
        }
        do {
            tokenIdentity = PaymentTokenIdentity(googlePay: try GooglePayToken(json: paymentToken))
        } catch {
            throw GatewayRefusal(.daemon(error.code), error.message, details: error.details)
        }
    }

    var statedMerchant: String? { merchant.identifier }
    var statedAmount: Amount? { amount }

    func statements(in notation: ValueNotation) -> [(name: String, value: JSONValue)] {
        [
            ("wallet", .string(wallet.rawValue)), ("merchantIdentifier", .string(merchant.identifier)),
            ("amount", .string(amount.decimal)), ("currency", .string(amount.currency.letters)),
        ]
    }

    /// Does nothing, since a request without a statement is not read at all.
    func checkStatements(for client: GatewayClient) throws(GatewayRefusal) {}

    /// The request states the kind of card number that the processor accepts. paytokend then refuses the other kind
    /// without claiming the message.
    func releaseRequest(
        _ names: ReleaseNames, for client: GatewayClient, to processor: ConfiguredProcessor?
    ) -> (path: String, body: [UInt8]) {
        let methods = processor?.googlePayMethods ?? []
        let body = GooglePayDecryptRequest.body(
            paymentToken: paymentToken.compact, merchantIdentifier: merchant.identifier, amount: amount.decimal,
            currency: amount.currency.letters,
            authMethod: methods.count > 1 ? nil : (methods.first ?? .cryptogram3DS).rawValue,
            reference: names.reference, attempt: names.attempt, after: names.after)
        return ("/v1/google-pay/decrypt", body)
    }

    func read(
        _ answer: [UInt8]
    ) -> (transactionId: String, merchantIdentifier: String, paymentData: JSONObject)? {
        guard let (read, paymentData, _) = GooglePayDecryptAnswer.read(answer),
            read.merchantIdentifier == merchant.identifier
        else { return nil }
        return (read.transactionId, read.merchantIdentifier, paymentData)
    }

    func paymentData(
        of released: ReleasedPaymentToken, for processor: ConfiguredProcessor
    ) throws(UnsupportedPaymentData) -> (amount: Amount?, credential: PaymentCredential) {
        let stated = released.paymentData["paymentMethodDetails"]?.objectValue?["authMethod"]?.stringValue
        guard let method = stated.flatMap(GooglePayPayload.AuthMethod.init(rawValue:)) else {
            throw UnsupportedPaymentData(.member("authMethod"))
        }
        guard processor.googlePayMethods.contains(method) else {
            throw UnsupportedPaymentData("authMethod \(method.rawValue)")
        }
        do throws(PaymentDataReader.Fault) {
            return (
                amount,
                try PaymentDataReader.googlePayCredential(
                    released.paymentData, bytes: released.paymentDataJSON, as: method)
            )
        } catch { throw UnsupportedPaymentData(error) }
    }
}

extension PaymentTokenIdentity {
    /// The message alone names the payment. Its signatures do not count: for each valid ECDSA signature, a second one can
    /// be computed without the key.
    fileprivate init(googlePay paymentToken: GooglePayToken) {
        let identifier = paymentToken.transactionIdentifier
        transactionIdentifier = identifier.bytes
        digest = NormalAndOriginalDigest { _ in
            JSONValue.array([.string(Wallet.googlePay.rawValue), .string(identifier.hex)]).compact
        }
    }
}
