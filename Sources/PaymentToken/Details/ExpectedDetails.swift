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
