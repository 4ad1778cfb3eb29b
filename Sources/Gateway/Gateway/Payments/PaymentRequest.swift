import Crypto
import Encodings
import Foundation
import NIOCore
import Payments
import Processors
import Refusals
import StrictJSON

/// A client's request to pay with a payment token or to decrypt it. The request came as JSON or as one of Radial's XML
/// documents.
struct PaymentRequest: Sendable {
    /// The PKPaymentToken. If the request came as Radial's XML, this object contains only the member `paymentData`.
    let paymentToken: JSONObject
    let tokenIdentity: PaymentTokenIdentity
    let orderId: String?
    let customer: Customer
    let expected: PaymentExpectations
    /// True for a JSON request, which can contain expectations. False for Radial's XML, which cannot contain any. The
    /// client's `require_expected` then does not apply.
    let canStateExpectations: Bool
}

/// The body of `POST /payments/apple-pay`: ApplePayPaymentSubmission of the merchant server's API, with additional
/// members.
///
/// Unknown outer members are refused. Otherwise a mistyped `expected` would be ignored, and the payment would be made
/// without a check. Unknown members of `token` and of the contacts are permitted, since Apple may add some.
extension PaymentRequest {
    /// - Throws: `malformed_request`, `malformed_token` or `currency_unknown`, which name the member without repeating
    ///   any of its content.
    init(parsing body: [UInt8]) throws(GatewayRefusal) {
        let value: JSONValue
        do { value = try JSONValue(parsing: body) } catch {
            let isToken = error.kind == .duplicateMember && error.outermostMember == "token"
            throw GatewayRefusal(
                .daemon(isToken ? .malformedToken : .malformedRequest), "The body is not strict JSON.",
                details: "\(error)")
        }
        let knownMembers = ["token", "billingContact", "shippingContact", "orderId", "customerIPAddress", "expected"]
        guard let object = value.objectValue, object.members.allSatisfy({ knownMembers.contains($0.name) }) else {
            throw GatewayRefusal(
                .daemon(.malformedRequest), "The body is not an object of the known members.",
                details: "known are: \(knownMembers.joined(separator: ", "))")
        }
        guard let token = object["token"]?.objectValue else { throw Self.malformedMember("token", "is not an object") }
        self.paymentToken = token
        tokenIdentity = try PaymentTokenIdentity(token)
        orderId = try Self.orderId(object["orderId"])
        customer = Customer(
            billing: try PaymentContact(object["billingContact"], named: "billingContact"),
            shipping: try PaymentContact(object["shippingContact"], named: "shippingContact"),
            ipAddress: try Self.ipAddress(object["customerIPAddress"]))
        expected = try PaymentExpectations(object["expected"])
        canStateExpectations = true
    }

    static func malformedMember(_ member: String, _ fault: String) -> GatewayRefusal {
        GatewayRefusal(.daemon(.malformedRequest), "\(member) \(fault).", details: member)
    }

    private static func orderId(_ value: JSONValue?) throws(GatewayRefusal) -> String? {
        guard let value else { return nil }
        guard let text = value.stringValue, isOrderId(text) else {
            throw malformedMember("orderId", "is not 1 to 64 printable ASCII characters without blanks")
        }
        return text
    }

    static func isOrderId(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }

    private static func ipAddress(_ value: JSONValue?) throws(GatewayRefusal) -> String? {
        guard let value else { return nil }
        guard let text = value.stringValue, text.utf8.count <= 45,
            let address = try? SocketAddress(ipAddress: text, port: 0), address.ipAddress != nil
        else { throw malformedMember("customerIPAddress", "is not an IPv4 or IPv6 address") }
        return text
    }

    /// Returns the digest of the purpose, the order and the expectations. If an earlier request with the same payment
    /// token had another digest, this request is refused, unless the earlier one ended as `refused`. The digest does not
    /// cover contacts, so a client may correct them in a repeated request.
    func digest(for purpose: Payment.Purpose) -> NormalAndOriginalDigest {
        NormalAndOriginalDigest { notation in
            var json = JSONWriter(capacity: 512)
            json.beginArray()
            json.string(purpose.rawValue)
            json.string(orderId ?? "")
            json.bool(orderId != nil)
            json.beginObject()
            for (name, value) in expected.paytokendForm.members {
                json.member(name)
                switch name {
                case "transactionAmount": json.value(notation.number(value))
                case "applicationData": json.value(notation.base64(value))
                case "applicationDataHash": json.value(notation.hexadecimal(value))
                default: json.value(value)
                }
            }
            json.endObject()
            json.endArray()
            return json.bytes
        }
    }
}

/// The values by which the gateway identifies a payment token before paytokend has verified it.
struct PaymentTokenIdentity: Sendable {
    /// The member `header.transactionId` of paymentData, 32 bytes.
    let transactionIdentifier: [UInt8]
    /// The digest of the known members of paymentData, regardless of their order.
    let digest: NormalAndOriginalDigest

    /// Reads a PKPaymentToken. Requires `paymentMethod` and `transactionIdentifier` in addition to `paymentData`,
    /// because the merchant server's API requires them.
    init(_ token: JSONObject) throws(GatewayRefusal) {
        guard let data = token["paymentData"]?.objectValue else {
            throw Self.malformedMember("token.paymentData", "is not an object with a header")
        }
        for (name, isPresent) in [
            ("paymentMethod", token["paymentMethod"]?.objectValue != nil),
            ("transactionIdentifier", token["transactionIdentifier"]?.stringValue != nil),
        ] where !isPresent { throw Self.malformedMember("token.\(name)", "is missing or of another type") }
        try self.init(paymentData: data)
    }

    init(paymentData data: JSONObject) throws(GatewayRefusal) {
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

    /// Returns the member `reference` of the request to paytokend. paytokend repeats a release only for a request with
    /// the same reference. The reference depends on the client, so no client can receive another client's release.
    func reference(client: String) -> String {
        Hexadecimal.encode(Array(SHA256.hash(data: Array(client.utf8) + [0] + transactionIdentifier)))
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
        let currency = try Self.currency(object)
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
            guard let text = amount.stringValue, let parsed = Amount(decimal: text, currency: currency) else {
                throw PaymentRequest.malformedMember(
                    "expected.amount",
                    "is not a decimal in a string, in major units, with at most \(currency.decimals) decimals, as in "
                        + (currency.decimals == 0 ? "\"1000\"" : "\"10.99\""))
            }
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

    private static func currency(_ object: JSONObject) throws(GatewayRefusal) -> Currency? {
        guard let value = object["currency"] else { return nil }
        guard object["currencyCode"] == nil else {
            throw PaymentRequest.malformedMember("expected", "has currency and currencyCode; give one")
        }
        guard let letters = value.stringValue else {
            throw PaymentRequest.malformedMember("expected.currency", "is not a string")
        }
        guard let currency = Currency(letters: letters) else {
            throw GatewayRefusal(
                .payment(.currencyUnknown),
                "expected.currency is not a currency of ISO 4217 in capital letters, such as USD.",
                details: "expected.currency")
        }
        return currency
    }

    var isEmpty: Bool { paytokendForm.members.isEmpty }
}

extension PaymentContact {
    /// Reads a contact; returns nil if `value` is nil.
    ///
    /// - Throws: `malformed_request` if the value is not an object, or if one of its texts is not permitted.
    fileprivate init?(_ value: JSONValue?, named name: String) throws(GatewayRefusal) {
        guard let value else { return nil }
        guard let object = value.objectValue else { throw PaymentRequest.malformedMember(name, "is not an object") }
        func text(_ member: String) throws(GatewayRefusal) -> String? {
            guard let value = object[member] else { return nil }
            guard let text = value.stringValue, Self.isContactText(text) else {
                throw PaymentRequest.malformedMember(
                    "\(name).\(member)", "is not a string of at most 256 characters without control characters")
            }
            return text
        }
        self.init()
        phoneNumber = try text("phoneNumber")
        emailAddress = try text("emailAddress")
        givenName = try text("givenName")
        familyName = try text("familyName")
        locality = try text("locality")
        administrativeArea = try text("administrativeArea")
        postalCode = try text("postalCode")
        countryCode = try text("countryCode")
        // These members are only checked; the gateway does not use them.
        for member in ["phoneticGivenName", "phoneticFamilyName", "subLocality", "subAdministrativeArea", "country"] {
            _ = try text(member)
        }
        guard let lines = object["addressLines"] else { return }
        let texts = lines.arrayValue?.compactMap(\.stringValue)
        guard let texts, texts.count == lines.arrayValue?.count, texts.count <= 10,
            texts.allSatisfy(Self.isContactText)
        else {
            throw PaymentRequest.malformedMember(
                "\(name).addressLines", "is not an array of at most 10 strings of at most 256 characters")
        }
        addressLines = texts
    }

    private static func isContactText(_ text: String) -> Bool {
        text.unicodeScalars.count <= 256
            && !text.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }
}
