internal import Crypto
internal import Encodings
public import Refusals
public import StrictJSON

/// The caller's description of the payment that it expects: the `expected` member of a request. The comparison is step
/// 6 of Apple's payment token format reference.
///
/// Each `check` function compares one value, and is called even if the caller expects nothing. It throws if the value
/// differs from the expected one, or if an expected value is absent or unreadable in the payment token.
public struct ExpectedDetails: Sendable, Equatable {
    /// ISO 4217 numeric code, three digits.
    private var currencyCode: String?
    /// The amount, in the unit that the payment token uses.
    private var transactionAmount: ExactDecimal?
    private var applicationData: ExpectedApplicationData?
    private var merchantIdentifier: String?

    /// `applicationData` or `applicationDataHash`, as in the request.
    private var applicationDataMember: String?

    /// The names allowed in an access rule's `require_expected`. An `applicationDataHash` in a request, and an
    /// `applicationData` of null, also satisfy `applicationData`.
    public static let memberNames: Set<String> = [
        "currencyCode", "transactionAmount", "applicationData", "merchantIdentifier",
    ]

    /// No expectations.
    public static let nothing = ExpectedDetails()

    private init() {}

    /// Reads the `expected` object.
    ///
    /// - Throws: `malformed_request` for an unknown member, for one of the wrong type or form, or for both
    ///   `applicationData` and `applicationDataHash`.
    public init(json: JSONObject) throws(Refusal) {
        for (name, value) in json.members {
            switch name {
            case "currencyCode":
                guard let text = value.stringValue, text.utf8.count == 3, text.utf8.allSatisfy(Self.isDigit)
                else { throw .malformedExpectation("\(name) is not a string of three digits") }
                currencyCode = text
            case "transactionAmount":
                guard let amount = value.numberValue?.decimal
                else { throw .malformedExpectation("\(name) is not a number of at most 64 digits") }
                transactionAmount = amount
            case "applicationData", "applicationDataHash":
                guard applicationData == nil
                else { throw .malformedExpectation("applicationData and applicationDataHash exclude each other") }
                applicationData =
                    name == "applicationData"
                    ? try ExpectedApplicationData(data: value) : try ExpectedApplicationData(hash: value)
                applicationDataMember = name
            case "merchantIdentifier":
                guard let text = value.stringValue, !text.isEmpty
                else { throw .malformedExpectation("\(name) is not a string, or empty") }
                merchantIdentifier = text
            default:
                // The caller chose this name, and it can have any length and content, so the message does not repeat
                // it.
                throw .malformedExpectation(
                    "a member other than currencyCode, transactionAmount, applicationData, applicationDataHash and "
                        + "merchantIdentifier")
            }
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    /// The required members that the request does not expect, in alphabetical order.
    ///
    /// - Parameter required: the `require_expected` of the caller's access rule, which contains names from
    ///   ``memberNames``.
    public func missing(of required: Set<String>) -> [String] {
        var stated = Set(checkedMembers)
        if applicationData != nil { stated.insert("applicationData") }
        return required.subtracting(stated).sorted()
    }

    /// The names of the expected members, as in the request. The response that releases the payment lists them as
    /// checked.
    public var checkedMembers: [String] {
        [
            currencyCode.map { _ in "currencyCode" },
            transactionAmount.map { _ in "transactionAmount" },
            applicationDataMember,
            merchantIdentifier.map { _ in "merchantIdentifier" },
        ].compactMap { name in name }
    }

    // MARK: Before the key is used

    /// Checks that the merchant of the payment token's key is the expected one, byte for byte.
    ///
    /// - Throws: `merchant_mismatch`.
    public func checkMerchant(_ actual: String) throws(Refusal) {
        guard let expected = merchantIdentifier else { return }
        guard expected.utf8.elementsEqual(actual.utf8) else {
            throw Refusal(
                .merchantMismatch,
                "The payment token is for another merchant than expected; check which merchant identifier the payment "
                    + "request used.")
        }
    }

    /// Checks that the payment token has the hash of the expected applicationData, or no hash if none is expected.
    ///
    /// - Throws: `application_data_mismatch`.
    public func checkApplicationData(_ paymentToken: PaymentToken) throws(Refusal) {
        guard let expected = applicationData else { return }
        let message = "The payment token's applicationData is not the expected one; it may belong to another order."
        switch (expected, paymentToken.applicationDataHash) {
        case (.none, nil): return
        case (.none, .some):
            throw Refusal(.applicationDataMismatch, message, details: "none is expected, the payment token has one")
        case (.hash, nil):
            throw Refusal(.applicationDataMismatch, message, details: "one is expected, the payment token has none")
        case (.hash(let expected), .some(let hash)):
            guard expected == hash else { throw Refusal(.applicationDataMismatch, message) }
        }
    }

    // MARK: After the payment data was decrypted

    /// Checks that the payment's currency is the expected one.
    ///
    /// - Throws: `currency_mismatch`.
    public func checkCurrency(_ payload: PaymentPayload) throws(Refusal) {
        guard let expected = currencyCode else { return }
        guard let actual = payload.currencyCode, actual.utf8.elementsEqual(expected.utf8) else {
            throw Refusal(
                .currencyMismatch,
                "The payment's currency is not the expected one; check it against the payment request.",
                details: payload.currencyCode == nil ? "the payment has no readable currencyCode" : nil)
        }
    }

    /// Checks that the payment's amount is the expected one, as an exact decimal.
    ///
    /// - Throws: `amount_mismatch`.
    public func checkAmount(_ payload: PaymentPayload) throws(Refusal) {
        guard let expected = transactionAmount else { return }
        guard let actual = payload.transactionAmount, actual == expected else {
            throw Refusal(
                .amountMismatch,
                "The payment's amount is not the expected one; check it and its unit against the payment request.",
                details: payload.transactionAmount == nil ? "the payment has no readable transactionAmount" : nil)
        }
    }
}

/// The expected applicationData of the merchant's payment request.
private enum ExpectedApplicationData: Sendable, Equatable {
    /// The payment request had none, so the payment token must have none.
    case none
    /// SHA-256 of the original data, 32 bytes, which the payment token's header must have.
    case hash([UInt8])

    /// `applicationData`: base64 of the original data, or null for none.
    init(data value: JSONValue) throws(Refusal) {
        if value.isNull {
            self = .none
        } else {
            guard let text = value.stringValue, let data = Base64.decode(text)
            else { throw .malformedExpectation("applicationData is neither base64 nor null") }
            self = .hash(Array(SHA256.hash(data: data)))
        }
    }

    /// `applicationDataHash`: the hash itself, 64 hexadecimal digits.
    init(hash value: JSONValue) throws(Refusal) {
        guard let text = value.stringValue, let hash = Hexadecimal.decode(text), hash.count == 32
        else { throw .malformedExpectation("applicationDataHash is not 64 hexadecimal digits") }
        self = .hash(hash)
    }
}

extension Refusal {
    fileprivate static func malformedExpectation(_ details: String) -> Refusal {
        Refusal(
            .malformedRequest, "The request's expected member cannot be read; correct the request.",
            details: "expected: \(details)")
    }
}

/// The decrypted payment data: one JSON object ("Payment Data Keys" of Apple's format reference).
///
/// Only the values that are compared with the caller's expectations are read here. The caller gets the decrypted bytes
/// as Apple wrote them. A member that is absent, or not of the documented type, is read as nil.
public struct PaymentPayload: Sendable {
    /// The limits for parsing the payment data. No document from Apple is nested as deeply as 64 levels.
    private static let limits = JSONLimits(maximumDepth: 64)

    private let json: JSONObject

    /// - Throws: `decryption_failed` unless `plaintext` is one well-formed JSON object in UTF-8 without duplicate
    ///   names.
    public init(plaintext: [UInt8]) throws(Refusal) {
        guard let value = try? JSONValue(parsing: plaintext, limits: Self.limits), let object = value.objectValue
        else { throw .decryptionFailed }
        json = object
    }

    /// The ISO 4217 numeric code, a string to preserve leading zeros.
    public var currencyCode: String? { json["currencyCode"]?.stringValue }
    /// The exact amount in the unit that Apple wrote.
    public var transactionAmount: ExactDecimal? { json["transactionAmount"]?.numberValue?.decimal }
}

extension PaymentPayload: Unprintable {}

/// Cardholder data and the types that contain it. Printing, interpolating, dumping or reflecting such a value gives
/// only the type's name, so that no log line or crash report can contain the data.
public protocol Unprintable: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Unprintable {
    public var description: String { "\(Self.self)(not printable)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: [], displayStyle: .struct) }
}
