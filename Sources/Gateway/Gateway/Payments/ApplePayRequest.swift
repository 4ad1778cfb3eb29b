import DaemonAPI
import Encodings
import KeyTypes
import Payments
import Processors
import StrictJSON

/// The part of a payment request that is Apple Pay's: ApplePayPaymentSubmission of the merchant server's API, with the
/// additional member `expected`.
struct ApplePayRequest: WalletRequest {
    static let wallet = Wallet.applePay
    /// The members that only these requests have.
    static let members = ["expected"]

    /// The PKPaymentToken. If the request came as Radial's XML, this object contains only the member `paymentData`.
    let paymentToken: JSONObject
    let tokenIdentity: PaymentTokenIdentity
    let expected: PaymentExpectations
    /// True for a JSON request, which can contain expectations. False for Radial's XML, which cannot contain any. The
    /// client's `require_expected` then does not apply.
    let canStateExpectations: Bool

    /// - Throws: `malformed_request`, `malformed_token` or `currency_unknown`.
    init(_ object: JSONObject) throws(GatewayRefusal) {
        guard let token = object["token"]?.objectValue else {
            throw PaymentRequest.malformedMember("token", "is not an object")
        }
        paymentToken = token
        tokenIdentity = try PaymentTokenIdentity(applePay: token)
        expected = try PaymentExpectations(object["expected"])
        canStateExpectations = true
    }

    /// A payment token from Radial's XML, with which a client cannot state expectations.
    init(radial paymentData: JSONObject) throws(GatewayRefusal) {
        guard let token = JSONObject([(name: "paymentData", value: .object(paymentData))]) else { throw .defect }
        paymentToken = token
        tokenIdentity = try PaymentTokenIdentity(paymentData: paymentData)
        expected = try PaymentExpectations(nil)
        canStateExpectations = false
    }

    var statedMerchant: String? { expected.merchantIdentifier }
    var statedAmount: Amount? { nil }

    func statements(in notation: ValueNotation) -> [(name: String, value: JSONValue)] {
        expected.paytokendForm.members.map { name, value in
            switch name {
            case "transactionAmount": (name, notation.number(value))
            case "applicationData": (name, notation.base64(value))
            case "applicationDataHash": (name, notation.hexadecimal(value))
            default: (name, value)
            }
        }
    }

    func checkStatements(for client: GatewayClient) throws(GatewayRefusal) {
        let unstated =
            canStateExpectations ? client.requiredExpectations.subtracting(expected.statedExpectations) : []
        guard let first = unstated.map(\.rawValue).min() else { return }
        throw GatewayRefusal(
            .payment(.elementMissing), "expected.\(first) is missing; this client must state it in each payment.",
            details: "expected.\(first)")
    }

    /// The request lists the client's merchants. If none of them is the payment token's merchant, paytokend refuses the
    /// request without claiming the payment token. Otherwise a client could use up a payment token that it obtained from
    /// another client.
    func releaseRequest(
        _ names: ReleaseNames, for client: GatewayClient, to processor: ConfiguredProcessor?
    ) -> (path: String, body: [UInt8]) {
        let body = DecryptRequest.body(
            paymentToken: JSONValue.object(paymentToken).compact,
            expected: expected.isEmpty ? nil : expected.paytokendForm, reference: names.reference,
            attempt: names.attempt, after: names.after, merchants: client.merchants.map(\.text))
        return ("/v1/decrypt", body)
    }

    func read(
        _ answer: [UInt8]
    ) -> (transactionId: String, merchantIdentifier: String, paymentData: JSONObject)? {
        DecryptAnswer.read(answer).map { ($0.answer.transactionId, $0.answer.merchantIdentifier, $0.paymentData) }
    }

    func paymentData(
        of released: ReleasedPaymentToken, for processor: ConfiguredProcessor
    ) throws(UnsupportedPaymentData) -> (amount: Amount?, credential: PaymentCredential) {
        let capabilities = processor.processor.capabilities
        let (amount, credential): (Amount?, PaymentCredential)
        do throws(PaymentDataReader.Fault) {
            amount = try PaymentDataReader.amount(released.paymentData)
            credential = try PaymentDataReader.credential(released.paymentData, bytes: released.paymentDataJSON)
        } catch { throw UnsupportedPaymentData(error) }
        let type: PaymentDataType = if case .emv = credential.proof { .emv } else { .threeDSecure }
        guard capabilities.paymentData.contains(type) else {
            throw UnsupportedPaymentData("paymentDataType \(type.rawValue)")
        }
        guard capabilities.takesSeveralMerchants || credential.merchantResponses.isEmpty else {
            throw UnsupportedPaymentData("authenticationResponses of several merchants")
        }
        // For some currencies, the unit of Apple's amounts is not verified. If the client did not state the amount, the
        // gateway could submit an amount that is wrong by a factor of ten or a hundred. No other check would detect
        // this.
        guard amount?.isAppleUnitVerified ?? true || expected.statedExpectations.contains(.amount) else {
            throw UnsupportedPaymentData(
                "a currency without two decimals, in a request that does not state expected.amount")
        }
        return (amount, credential)
    }
}

extension PaymentTokenIdentity {
    /// Reads a PKPaymentToken. Requires `paymentMethod` and `transactionIdentifier` in addition to `paymentData`,
    /// because the merchant server's API requires them.
    fileprivate init(applePay token: JSONObject) throws(GatewayRefusal) {
        guard let data = token["paymentData"]?.objectValue else {
            throw Self.malformedMember("token.paymentData", "is not an object with a header")
        }
        for (name, isPresent) in [
            ("paymentMethod", token["paymentMethod"]?.objectValue != nil),
            ("transactionIdentifier", token["transactionIdentifier"]?.stringValue != nil),
        ] where !isPresent { throw Self.malformedMember("token.\(name)", "is missing or of another type") }
        try self.init(paymentData: data)
    }

    /// The digest covers the known members of paymentData, regardless of their order.
    fileprivate init(paymentData data: JSONObject) throws(GatewayRefusal) {
        guard let header = data["header"]?.objectValue else {
            throw Self.malformedMember("token.paymentData", "is not an object with a header")
        }
        guard let text = header["transactionId"]?.stringValue, let transactionIdentifier = Hexadecimal.decode(text),
            transactionIdentifier.count == 32
        else { throw Self.malformedMember("token.paymentData.header.transactionId", "is not 64 hexadecimal digits") }
        self.transactionIdentifier = transactionIdentifier
        digest = NormalAndOriginalDigest { notation in
            var json = JSONWriter(capacity: 4096)
            json.beginArray()
            json.value(data["version"] ?? .null)
            for value in [
                data["data"], data["signature"], header["ephemeralPublicKey"], header["wrappedKey"],
                header["publicKeyHash"],
            ] { json.value(notation.base64(value ?? .null)) }
            json.value(notation.hexadecimal(header["applicationData"] ?? .null))
            json.string(Hexadecimal.encode(transactionIdentifier))
            json.endArray()
            return json.bytes
        }
    }

    private static func malformedMember(_ member: String, _ fault: String) -> GatewayRefusal {
        GatewayRefusal(.daemon(.malformedToken), "\(member) \(fault).", details: member)
    }
}

/// The request's member `expected`: the values that the payment token's data must have. It has the same members as in
/// paytokend's `POST /v1/decrypt`. A client may state `amount` (a decimal in major units) instead of
/// `transactionAmount`, and `currency` (ISO 4217 letters) instead of `currencyCode`.
struct PaymentExpectations: Sendable {
    /// The expectations as the gateway sends them to paytokend. The members have the order `currencyCode`,
    /// `transactionAmount`, `applicationData`, `applicationDataHash`, `merchantIdentifier`. An expectation that the
    /// client did not state has no member.
    let paytokendForm: JSONObject
    let merchantIdentifier: String?
    /// The expectations that the client stated, of those that the client's `require_expected` can demand.
    let statedExpectations: Set<RequiredExpectation>

    init(_ value: JSONValue?) throws(GatewayRefusal) {
        guard let value else {
            (paytokendForm, merchantIdentifier, statedExpectations) = (JSONObject(), nil, [])
            return
        }
        let paytokendMembers = [
            "currencyCode", "transactionAmount", "applicationData", "applicationDataHash", "merchantIdentifier",
        ]
        guard let object = value.objectValue,
            object.members.allSatisfy({
                paytokendMembers.contains($0.name) || ["amount", "currency"].contains($0.name)
            })
        else {
            throw GatewayRefusal(
                .daemon(.malformedRequest), "expected is not an object of the known members.",
                details: "known are: amount, currency, \(paytokendMembers.joined(separator: ", "))")
        }
        var members: [(name: String, value: JSONValue)] = []
        var statedExpectations: Set<RequiredExpectation> = []
        guard object["currency"] == nil || object["currencyCode"] == nil else {
            throw PaymentRequest.malformedMember("expected", "has currency and currencyCode; give one")
        }
        var currency: Currency?
        if let value = object["currency"] { currency = try Currency(stated: value, in: "expected.currency") }
        if let currency { members.append(("currencyCode", .string(currency.number))) }
        if let code = object["currencyCode"] { members.append(("currencyCode", code)) }
        if !members.isEmpty { statedExpectations.insert(.currency) }
        if let amount = object["amount"] {
            guard object["transactionAmount"] == nil else {
                throw PaymentRequest.malformedMember("expected", "has amount and transactionAmount; give one")
            }
            guard let currency else {
                throw PaymentRequest.malformedMember(
                    "expected.amount", "needs expected.currency, which says its decimals")
            }
            let parsed = try Amount(stated: amount, in: "expected.amount", currency: currency)
            members.append(("transactionAmount", .number(JSONNumber(Int(parsed.minorUnits)))))
            statedExpectations.insert(.amount)
        } else if let amount = object["transactionAmount"] {
            guard amount.numberValue != nil else {
                throw PaymentRequest.malformedMember("expected.transactionAmount", "is not a number")
            }
            members.append(("transactionAmount", amount))
            statedExpectations.insert(.amount)
        }
        for name in ["applicationData", "applicationDataHash", "merchantIdentifier"] {
            if let value = object[name] { members.append((name, value)) }
        }
        merchantIdentifier = object["merchantIdentifier"]?.stringValue
        guard merchantIdentifier != nil || object["merchantIdentifier"] == nil else {
            throw PaymentRequest.malformedMember("expected.merchantIdentifier", "is not a string")
        }
        self.statedExpectations = statedExpectations
        guard let paytokendForm = JSONObject(members) else { throw .defect }
        self.paytokendForm = paytokendForm
    }

    var isEmpty: Bool { paytokendForm.members.isEmpty }
}
