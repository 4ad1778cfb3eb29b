/// A reply's codes in one line of at most 100 printable characters, such as `Code=APPROVED Auth=AP01 CVV2=0 AVS=E
/// Tender=VC`. The store of payments, which does not depend on Radial, keeps this line as a payment's reason.
///
/// A merchant's backend must see CVV2ResponseCode and AVSResponseCode before it ships, even if it repeats the request
/// because a reply was lost. The only card data in the line are the tender type.
public struct ReplyCodes: Sendable, Equatable {
    /// The codes in the order of ``text``. A raw value is the code's name in ``text``.
    private enum Field: String, CaseIterable {
        case response = "Code"
        case authorization = "Auth"
        case cvv2 = "CVV2"
        case avs = "AVS"
        case phone = "Phone"
        case name = "Name"
        case email = "Email"
        case tenderType = "Tender"

        /// The maximum number of letters and digits of a value. `AcceptOrderWithException` has 24; other documented
        /// codes have at most four. Values that may consist of digits alone are shorter than any account number.
        var maximumCharacters: Int {
            switch self {
            case .response: 24
            case .authorization: 8
            case .cvv2, .avs, .tenderType: 4
            case .phone, .name, .email: 2
            }
        }

        /// The element's name in CreditCardAuthReply.
        var element: String {
            switch self {
            case .response: "ResponseCode"
            case .authorization: "AuthorizationResponseCode"
            case .cvv2: "CVV2ResponseCode"
            case .avs: "AVSResponseCode"
            case .phone: "PhoneResponseCode"
            case .name: "NameResponseCode"
            case .email: "EmailResponseCode"
            case .tenderType: "TenderType"
            }
        }

        func allows(_ text: String) -> Bool {
            (1...maximumCharacters).contains(text.utf8.count)
                && text.utf8.allSatisfy { byte in
                    switch byte {
                    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
                    case UInt8(ascii: "0")...UInt8(ascii: "9"): self != .response
                    default: false
                    }
                }
        }
    }

    private var values: [Field: String] = [:]

    public var responseCode: String? { values[.response] }
    public var authorizationResponseCode: String? { values[.authorization] }
    public var cvv2ResponseCode: String? { values[.cvv2] }
    public var avsResponseCode: String? { values[.avs] }
    public var phoneResponseCode: String? { values[.phone] }
    public var nameResponseCode: String? { values[.name] }
    public var emailResponseCode: String? { values[.email] }
    public var tenderType: String? { values[.tenderType] }

    /// The known codes in the order of ``text``, each with the name of its element in CreditCardAuthReply.
    public var elements: [(name: String, value: String)] {
        Field.allCases.compactMap { field in values[field].map { (name: field.element, value: $0) } }
    }

    /// Takes a reply's codes, except those that are empty, longer than any documented code, or not a word of letters
    /// and digits.
    public init(_ reply: CreditCardAuthReply) {
        let stated: [(Field, String?)] = [
            (.response, reply.responseCode), (.authorization, reply.authorizationResponseCode),
            (.cvv2, reply.cvv2ResponseCode), (.avs, reply.avsResponseCode), (.phone, reply.phoneResponseCode),
            (.name, reply.nameResponseCode), (.email, reply.emailResponseCode), (.tenderType, reply.tenderType),
        ]
        for (field, text) in stated {
            guard let text = text?.trimmingXMLWhiteSpace, field.allows(text) else { continue }
            values[field] = text
        }
    }

    /// Parses ``text``. Returns nil for any other text, such as a reason that does not come from Radial.
    public init?(text: String) {
        for part in text.split(separator: " ", omittingEmptySubsequences: false) {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2, let field = Field(rawValue: String(pair[0])), field.allows(String(pair[1])),
                values.updateValue(String(pair[1]), forKey: field) == nil
            else { return nil }
        }
    }

    /// The codes on one line; empty if no code is known.
    public var text: String {
        Field.allCases.compactMap { field in values[field].map { "\(field.rawValue)=\($0)" } }.joined(separator: " ")
    }
}
