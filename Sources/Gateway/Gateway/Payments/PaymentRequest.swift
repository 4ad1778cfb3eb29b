import Crypto
import Encodings
import Foundation
import KeyTypes
import NIOCore
import Payments
import Processors
import StrictJSON

/// A client's request to pay with a payment token of either wallet, or to decrypt it. The request came as JSON or as one
/// of Radial's XML documents.
struct PaymentRequest: Sendable {
    /// The part that depends on the wallet: an ``ApplePayRequest`` or a ``GooglePayRequest``.
    let walletRequest: any WalletRequest
    let orderId: String?
    let customer: Customer

    var tokenIdentity: PaymentTokenIdentity { walletRequest.tokenIdentity }
}

/// The part of a payment request that depends on the wallet: the payment token, what the client states about the payment,
/// and how paytokend's answer becomes a payment. ``PaymentFlow`` has the steps, which are the same for both wallets.
protocol WalletRequest: Sendable {
    static var wallet: Wallet { get }
    var tokenIdentity: PaymentTokenIdentity { get }
    /// The merchant that the request states; nil if it states none. paytokend refuses the payment token if it is another
    /// merchant's.
    var statedMerchant: String? { get }
    /// The amount to pay, if only the request states it; nil if the payment token does.
    var statedAmount: Amount? { get }

    /// The client's statements about the payment, which a repeated request must make again. No two wallets have the same.
    func statements(in notation: ValueNotation) -> [(name: String, value: JSONValue)]

    /// Checks that the request states what the client's configuration requires.
    ///
    /// - Throws: `element_missing`.
    func checkStatements(for client: GatewayClient) throws(GatewayRefusal)

    /// Returns paytokend's path, and the body of the request for the payment token's release.
    ///
    /// - Parameter processor: the processor of the merchant that the request states, if there is one.
    func releaseRequest(
        _ names: ReleaseNames, for client: GatewayClient, to processor: ConfiguredProcessor?
    ) -> (path: String, body: [UInt8])

    /// Parses paytokend's answer. Returns nil if it has another form, or names another merchant than a Google Pay request.
    /// ``release(in:)`` compares the transaction identifier, 64 hexadecimal digits.
    func read(
        _ answer: [UInt8]
    ) -> (transactionId: String, merchantIdentifier: String, paymentData: JSONObject)?

    /// Returns the amount and the credential to submit.
    func paymentData(
        of released: ReleasedPaymentToken, for processor: ConfiguredProcessor
    ) throws(UnsupportedPaymentData) -> (amount: Amount?, credential: PaymentCredential)
}

extension WalletRequest {
    /// The wallet, for a value whose type is not known.
    var wallet: Wallet { Self.wallet }

    /// Returns what paytokend has released; nil if the answer is not one to this request.
    func release(in answer: [UInt8]) -> ReleasedPaymentToken? {
        guard let read = read(answer), let identifier = Hexadecimal.decode(read.transactionId),
            identifier == tokenIdentity.transactionIdentifier
        else { return nil }
        return ReleasedPaymentToken(
            transactionIdentifier: identifier, merchantIdentifier: read.merchantIdentifier,
            paymentData: read.paymentData)
    }
}

/// The names under which the gateway asks paytokend for a release.
struct ReleaseNames: Sendable {
    /// paytokend repeats a release only for a request with the same reference.
    let reference: String
    /// The new attempt's name.
    let attempt: String
    /// The names of earlier attempts that certainly sent nothing.
    let after: [String]
}

/// The reason why a released payment token's data cannot be submitted to the processor, without any of its values.
struct UnsupportedPaymentData: Error {
    let reason: String

    init(_ reason: String) { self.reason = reason }

    init(_ fault: PaymentDataReader.Fault) {
        switch fault {
        case .member(let name): reason = "\(name) is absent or not as documented"
        case .unknownType: reason = "an unknown paymentDataType"
        }
    }
}

/// The JSON bodies of `POST /payments/apple-pay` and `POST /payments/google-pay`.
///
/// Unknown outer members are refused. Otherwise a mistyped `expected` would be ignored, and the payment would be made
/// without a check. Unknown members of Apple's `token` and of the contacts are permitted, since Apple may add some.
extension PaymentRequest {
    private static let commonMembers = ["billingContact", "shippingContact", "orderId", "customerIPAddress"]

    /// Parses the body of `POST /payments/WALLET`.
    ///
    /// - Throws: `malformed_request`, `malformed_token`, `unsupported_version`, `element_missing` or `currency_unknown`,
    ///   which name the member without repeating any of its content.
    init(parsing body: [UInt8], of wallet: Wallet) throws(GatewayRefusal) {
        let value: JSONValue
        do { value = try JSONValue(parsing: body) } catch {
            let isToken = error.kind == .duplicateMember && error.outermostMember == "token"
            throw GatewayRefusal(
                .daemon(isToken ? .malformedToken : .malformedRequest), "The body is not strict JSON.",
                details: "\(error)")
        }
        let knownMembers =
            ["token"] + Self.commonMembers + (wallet == .applePay ? ApplePayRequest.members : GooglePayRequest.members)
        guard let object = value.objectValue, object.members.allSatisfy({ knownMembers.contains($0.name) }) else {
            throw GatewayRefusal(
                .daemon(.malformedRequest), "The body is not an object of the known members.",
                details: "known are: \(knownMembers.joined(separator: ", "))")
        }
        walletRequest =
            switch wallet {
            case .applePay: try ApplePayRequest(object)
            case .googlePay: try GooglePayRequest(object)
            }
        orderId = try Self.orderId(object["orderId"])
        customer = Customer(
            billing: try PaymentContact(object["billingContact"], named: "billingContact"),
            shipping: try PaymentContact(object["shippingContact"], named: "shippingContact"),
            ipAddress: try Self.ipAddress(object["customerIPAddress"]))
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

    /// Returns the digest of the purpose, the order and the client's statements. If an earlier request with the same
    /// payment token had another digest, this request is refused, unless the earlier one ended as `refused`. The digest
    /// does not cover contacts, so a client may correct them in a repeated request.
    func digest(for purpose: Payment.Purpose) -> NormalAndOriginalDigest {
        NormalAndOriginalDigest { notation in
            var json = JSONWriter(capacity: 512)
            json.beginArray()
            json.string(purpose.rawValue)
            json.string(orderId ?? "")
            json.bool(orderId != nil)
            json.beginObject()
            for (name, value) in walletRequest.statements(in: notation) {
                json.member(name)
                json.value(value)
            }
            json.endObject()
            json.endArray()
            return json.bytes
        }
    }
}

/// The values by which the gateway identifies a payment token before paytokend has verified it.
struct PaymentTokenIdentity: Sendable {
    /// The payment token's name, 32 bytes: Apple's `header.transactionId`, or the SHA-256 of Google's `signedMessage`.
    let transactionIdentifier: [UInt8]
    /// The digest by which the store finds the client's earlier payment with this payment token.
    let digest: NormalAndOriginalDigest

    /// Returns the member `reference` of the request to paytokend. paytokend repeats a release only for a request with
    /// the same reference. The reference depends on the client, so no client can receive another client's release.
    func reference(client: String) -> String {
        Hexadecimal.encode(Array(SHA256.hash(data: Array(client.utf8) + [0] + transactionIdentifier)))
    }
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
