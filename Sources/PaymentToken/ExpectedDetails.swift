internal import Crypto
public import Refusals
public import StrictJSON

/// What the caller says that the payment is: the `expected` member of a request. Apple's step 6.
///
/// Each `check` function is one step of the request's way and is called whether or not something is expected: it
/// refuses what differs, what is expected but absent or unreadable in the token, and what the caller's access rule
/// requires to be expected but is not (see `requiring(_:)`).
public struct ExpectedDetails: Sendable, Equatable {
    /// ISO 4217 numeric code, three digits.
    public let currencyCode: String?
    /// In the token's own unit.
    public let transactionAmount: ExactDecimal?
    public let applicationData: ExpectedApplicationData?
    public let merchantIdentifier: String?

    /// The members that a caller's access rule wants, by the names in `memberNames`.
    let required: Set<String>
    private let applicationDataMember: String?

    /// The names that an access rule's `require_expected` may hold. An `applicationDataHash` in a request, and an
    /// `applicationData` of null, also satisfy `applicationData`.
    public static let memberNames: Set<String> = [
        "currencyCode", "transactionAmount", "applicationData", "merchantIdentifier",
    ]

    /// Nothing is expected.
    public static let nothing = ExpectedDetails(
        currencyCode: nil, transactionAmount: nil, applicationData: nil, merchantIdentifier: nil, required: [],
        applicationDataMember: nil)

    /// Reads the `expected` object.
    ///
    /// - Throws: `malformed_request` for a member that is not known, of the wrong type or form, or for both
    ///   `applicationData` and `applicationDataHash`.
    public init(json: JSONObject) throws(Refusal) {
        var currencyCode: String?
        var transactionAmount: ExactDecimal?
        var applicationData: (member: String, value: ExpectedApplicationData)?
        var merchantIdentifier: String?
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
                applicationData = (
                    name,
                    name == "applicationData"
                        ? try ExpectedApplicationData(data: value) : try ExpectedApplicationData(hash: value)
                )
            case "merchantIdentifier":
                guard let text = value.stringValue, !text.isEmpty
                else { throw .malformedExpectation("\(name) is not a string, or empty") }
                merchantIdentifier = text
            default:
                // The name is the caller's, of any length and content: it is not repeated.
                throw .malformedExpectation(
                    "a member other than currencyCode, transactionAmount, applicationData, applicationDataHash and "
                        + "merchantIdentifier")
            }
        }
        self.init(
            currencyCode: currencyCode, transactionAmount: transactionAmount, applicationData: applicationData?.value,
            merchantIdentifier: merchantIdentifier, required: [], applicationDataMember: applicationData?.member)
    }

    private init(
        currencyCode: String?, transactionAmount: ExactDecimal?, applicationData: ExpectedApplicationData?,
        merchantIdentifier: String?, required: Set<String>, applicationDataMember: String?
    ) {
        self.currencyCode = currencyCode
        self.transactionAmount = transactionAmount
        self.applicationData = applicationData
        self.merchantIdentifier = merchantIdentifier
        self.required = required
        self.applicationDataMember = applicationDataMember
    }

    /// The same expectations for a caller whose access rule requires these members: each missing one is refused with
    /// its own mismatch code by its own `check` function, so that the order of failures stays the contract's.
    public func requiring(_ members: Set<String>) -> ExpectedDetails {
        ExpectedDetails(
            currencyCode: currencyCode, transactionAmount: transactionAmount, applicationData: applicationData,
            merchantIdentifier: merchantIdentifier, required: members, applicationDataMember: applicationDataMember)
    }

    /// The names of what is expected, as the request spelled them: what a released answer says was checked.
    public var checkedMembers: [String] {
        [
            currencyCode.map { _ in "currencyCode" },
            transactionAmount.map { _ in "transactionAmount" },
            applicationDataMember,
            merchantIdentifier.map { _ in "merchantIdentifier" },
        ].compactMap { name in name }
    }

    /// Those of `members` that are not expected, in the order of their names.
    public func missing(required members: Set<String>) -> [String] {
        let checked = Set(checkedMembers.map { name in name == "applicationDataHash" ? "applicationData" : name })
        return members.subtracting(checked).sorted()
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }
}

// Apple's step 6. Before the key is used: merchant and applicationData. After: currency and amount.
extension ExpectedDetails {
    /// Whether the merchant that the token's key belongs to is the expected one, byte for byte.
    ///
    /// - Throws: `merchant_mismatch`.
    public func checkMerchant(_ merchantIdentifier: String) throws(Refusal) {
        guard let expected = self.merchantIdentifier else {
            return try refuseIfRequired("merchantIdentifier", .merchantMismatch)
        }
        guard expected.utf8.elementsEqual(merchantIdentifier.utf8) else {
            throw Refusal(
                .merchantMismatch,
                "The token is for another merchant than expected; check which merchant identifier the payment "
                    + "request used.")
        }
    }

    /// Whether the token carries the hash of the expected applicationData, or none where none is expected.
    ///
    /// - Throws: `application_data_mismatch`.
    public func checkApplicationData(_ token: PaymentToken) throws(Refusal) {
        guard let expected = applicationData else {
            return try refuseIfRequired("applicationData", .applicationDataMismatch)
        }
        let message = "The token's applicationData is not the expected one; it may belong to another order."
        switch (expected, token.applicationDataHash) {
        case (.none, nil): return
        case (.none, .some):
            throw Refusal(.applicationDataMismatch, message, details: "none is expected, the token has one")
        case (.hash, nil):
            throw Refusal(.applicationDataMismatch, message, details: "one is expected, the token has none")
        case (.hash(let expected), .some(let hash)):
            guard expected == hash else { throw Refusal(.applicationDataMismatch, message) }
        }
    }

    /// Whether the payment's currency is the expected one.
    ///
    /// - Throws: `currency_mismatch`.
    public func checkCurrency(_ payload: PaymentPayload) throws(Refusal) {
        guard let expected = currencyCode else { return try refuseIfRequired("currencyCode", .currencyMismatch) }
        guard let actual = payload.currencyCode, actual.utf8.elementsEqual(expected.utf8) else {
            throw Refusal(
                .currencyMismatch,
                "The payment's currency is not the expected one; check it against the payment request.",
                details: payload.currencyCode == nil ? "the payment has no readable currencyCode" : nil)
        }
    }

    /// Whether the payment's amount is the expected one, as an exact decimal.
    ///
    /// - Throws: `amount_mismatch`.
    public func checkAmount(_ payload: PaymentPayload) throws(Refusal) {
        guard let expected = transactionAmount else {
            return try refuseIfRequired("transactionAmount", .amountMismatch)
        }
        guard let actual = payload.transactionAmount, actual == expected else {
            throw Refusal(
                .amountMismatch,
                "The payment's amount is not the expected one; check it and its unit against the payment request.",
                details: payload.transactionAmount == nil ? "the payment has no readable transactionAmount" : nil)
        }
    }

    private func refuseIfRequired(_ member: String, _ code: RefusalCode) throws(Refusal) {
        guard !required.contains(member) else {
            throw Refusal(
                code, "This caller's access rule requires \(member) to be expected; send it in the request.",
                details: "expected.\(member) is missing")
        }
    }
}

/// The applicationData of the payment request that the caller made.
public enum ExpectedApplicationData: Sendable, Equatable {
    /// The request had none, so the token must have none.
    case none
    /// SHA-256 of the original data, 32 bytes: what the token's header must carry.
    case hash([UInt8])
}

extension ExpectedApplicationData {
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
    static func malformedExpectation(_ details: String) -> Refusal {
        Refusal(
            .malformedRequest, "The request's expected member cannot be read; correct the request.",
            details: "expected: \(details)")
    }
}
