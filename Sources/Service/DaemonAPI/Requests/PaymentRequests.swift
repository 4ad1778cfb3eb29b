import Encodings
public import Foundation
public import Refusals
public import StrictJSON

/// The body of `POST /v1/decrypt`. Other types parse the contents of `token` and `expected`.
public struct DecryptRequest: Sendable {
    /// The payment token as it was sent: not parsed yet, and of any JSON type.
    public let token: JSONValue
    public let expected: JSONObject?
    /// The members that the requests of both wallets have.
    public let common: ReleaseMembers
    /// The merchants for which the caller asks, as patterns in which `*` matches any characters. A payment token of another
    /// merchant is refused before its transaction is claimed. Nil asks for all merchants that the caller's access rule
    /// allows.
    public let merchants: [String]?

    /// The maximum number of patterns in ``merchants``, each of 1 to ``maximumPatternBytes`` bytes.
    public static let maximumMerchants = 100
    public static let maximumPatternBytes = 255
    /// The `details` of the `forbidden` refusal when ``merchants`` does not match the payment token's merchant. It tells a
    /// client that the request caused the refusal, not the access rule.
    public static let merchantsDetails = "merchants"

    /// Returns the refusal for a request that lacks members of ``expected`` which the caller's access rule requires.
    public static func lacksExpected(_ members: [String]) -> Refusal {
        Refusal(
            .malformedRequest,
            "The caller's access rule requires members of expected that the request lacks; send them.",
            details: members.map { "expected.\($0)" }.joined(separator: ", ") + missing)
    }

    /// Returns true if the refusal is that of ``lacksExpected(_:)``.
    public static func isMissingExpected(_ code: RefusalCode, details: String?) -> Bool {
        code == .malformedRequest && details?.hasSuffix(missing) == true
    }

    private static let missing = " missing, which the access rule requires"

    /// Parses a request's body.
    ///
    /// - Throws: `malformed_request`; `malformed_token` if a member name is repeated inside `token`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let members = try RequestMembers(
            parsing: body, known: ReleaseMembers.names.union(["token", "expected", "merchants"]))
        token = try members.required("token")
        expected = members.object["expected"]?.objectValue
        guard expected != nil || members.object["expected"] == nil else {
            throw RequestMembers.wrongType("expected", "an object")
        }
        common = try ReleaseMembers(members)
        merchants = try members.strings(
            "merchants", 1...Self.maximumMerchants, "1 to \(Self.maximumPatternBytes) bytes"
        ) { (1...Self.maximumPatternBytes).contains($0.utf8.count) }
    }

    public static func isReference(_ text: String) -> Bool { ReleaseMembers.isReference(text) }

    static func check(reference: String?) throws(Refusal) { try ReleaseMembers.check(reference: reference) }

    /// Returns a request's body, for a client. The payment token is copied unchanged.
    ///
    /// - Parameters:
    ///   - paymentToken: one JSON value.
    ///   - attempt: a new identifier for this request; see ``ReleaseMembers/attempt``.
    ///   - after: at most ``ReleaseMembers/maximumAfter`` attempts; empty without an `attempt`.
    ///   - merchants: the patterns of ``merchants``.
    public static func body(
        paymentToken: [UInt8], expected: JSONObject?, reference: String?, attempt: String? = nil, after: [String] = [],
        merchants: [String]? = nil
    ) -> [UInt8] {
        JSONWriter.object(capacity: paymentToken.count + 512 + after.count * 19) { json in
            json.member("token")
            json.rawValue(paymentToken)
            if let expected {
                json.member("expected")
                json.value(.object(expected))
            }
            json.member("reference", reference)
            json.member("attempt", attempt)
            if !after.isEmpty { json.member("after", after) }
            json.member("merchants", merchants)
        }
    }
}

/// The members of a release's request that are the same for both wallets: the caller's names for it.
public struct ReleaseMembers: Sendable {
    /// The caller's own name for the order: 1 to 128 printable ASCII characters.
    public let reference: String?
    /// A random identifier that the caller chose for this request alone; see ``isAttempt(_:)``.
    public let attempt: String?
    /// The attempts that the caller knows to have led to no payment. A payment token that was released before is released
    /// again only if its last release was by one of these. Empty without an `attempt`.
    public let after: [String]

    /// The maximum number of attempts in ``after``. A transaction has no more repeats than that.
    public static let maximumAfter = 100
    static let names: Set = ["reference", "attempt", "after"]
    private static let attemptForm = "16 lower-case hexadecimal digits that are not all zero"

    /// - Throws: `malformed_request`.
    init(_ members: RequestMembers) throws(Refusal) {
        reference = try members.string("reference")
        try Self.check(reference: reference)
        attempt = try members.string("attempt")
        after = try members.strings("after", 0...Self.maximumAfter, Self.attemptForm, Self.isAttempt) ?? []
        guard attempt.map(Self.isAttempt) ?? true else { throw RequestMembers.wrongType("attempt", Self.attemptForm) }
        guard attempt != nil || members.object["after"] == nil else {
            throw Refusal(.malformedRequest, "after needs an attempt.", details: "after")
        }
        // Otherwise the same request, sent twice, could release the payment token twice.
        guard attempt.map({ !after.contains($0) }) ?? true else {
            throw Refusal(.malformedRequest, "after names the attempt itself.", details: "after")
        }
    }

    static func isReference(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }

    static func check(reference: String?) throws(Refusal) {
        guard reference.map(isReference) ?? true else {
            throw Refusal(
                .malformedRequest, "reference is not 1 to 128 printable ASCII characters.", details: "reference")
        }
    }

    /// Returns true for a valid ``attempt``: 16 lower-case hexadecimal digits that are not all zero. A caller chooses these
    /// 8 bytes at random for each request, and never uses them again.
    static func isAttempt(_ text: String) -> Bool {
        text.utf8.count == 16 && Hexadecimal.isLowerCase(text.utf8) && text.utf8.contains { $0 != UInt8(ascii: "0") }
    }
}

/// The body of `POST /v1/verify`. Another type parses the contents of `token`.
public struct VerifyRequest: Sendable {
    public let token: JSONValue
    /// The time at which the signing time must lie in the signing-time window; nil for the current time.
    public let at: Date?

    /// Parses a request's body.
    ///
    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        try self.init(RequestMembers(parsing: body, known: Self.members))
    }

    fileprivate static let members: Set = ["token", "at"]

    fileprivate init(_ members: RequestMembers) throws(Refusal) {
        token = try members.required("token")
        guard let text = try members.string("at") else {
            at = nil
            return
        }
        guard let at = RFC3339.date(text) else { throw RequestMembers.wrongType("at", "a time of RFC 3339") }
        self.at = at
    }

    /// Returns a request's body, for a client.
    ///
    /// - Parameters:
    ///   - paymentToken: one JSON value, which is copied unchanged.
    ///   - at: an RFC 3339 time. It is a string, since a `Date` could round it.
    ///   - merchantIdentifier: for Google Pay, the merchant's; nil for Apple Pay.
    public static func body(paymentToken: [UInt8], at: String?, merchantIdentifier: String? = nil) -> [UInt8] {
        JSONWriter.object(capacity: paymentToken.count + 160) { json in
            json.member("token")
            json.rawValue(paymentToken)
            json.member("at", at)
            json.member("merchantIdentifier", merchantIdentifier)
        }
    }
}

/// The body of `POST /v1/google-pay/verify`. Another type parses the contents of `token`.
public struct GooglePayVerifyRequest: Sendable {
    /// The members that both wallets' requests have. `at` is the time at which Google's keys must not have expired.
    public let common: VerifyRequest
    /// The merchant's identifier at Google, without the prefix `merchant:`. Not checked yet.
    public let merchantIdentifier: String

    /// Parses a request's body.
    ///
    /// - Throws: `malformed_request`; `malformed_token` if a member name is repeated inside `token`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let members = try RequestMembers(parsing: body, known: VerifyRequest.members.union(["merchantIdentifier"]))
        common = try VerifyRequest(members)
        _ = try members.required("merchantIdentifier")
        merchantIdentifier = try members.string("merchantIdentifier") ?? ""
    }
}

/// The body of `POST /v1/google-pay/decrypt`. Another type parses the contents of `token`.
public struct GooglePayDecryptRequest: Sendable {
    /// The payment token as it was sent: not parsed yet, and of any JSON type.
    public let token: JSONValue
    /// The merchant's identifier at Google, without the prefix `merchant:`. Not checked yet.
    public let merchantIdentifier: String
    /// The caller's statement of what it will charge, for the record: 1 to 11 digits, and up to 4 after a point. The
    /// payment token names no amount, so it is compared with nothing.
    public let amount: String
    /// The currency of ``amount``: three upper-case letters (ISO 4217).
    public let currency: String
    /// `expected.authMethod`: the only kind of card number that the caller takes; nil for any that its rule permits.
    public let authMethod: String?
    public let common: ReleaseMembers

    /// Parses a request's body.
    ///
    /// - Throws: `malformed_request`; `malformed_token` if a member name is repeated inside `token`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let members = try RequestMembers(
            parsing: body,
            known: ReleaseMembers.names.union(["token", "merchantIdentifier", "amount", "currency", "expected"]))
        token = try members.required("token")
        for name in ["merchantIdentifier", "amount", "currency"] { _ = try members.required(name) }
        merchantIdentifier = try members.string("merchantIdentifier") ?? ""
        amount = try members.string("amount") ?? ""
        currency = try members.string("currency") ?? ""
        guard Self.isAmount(amount) else {
            throw RequestMembers.wrongType("amount", "1 to 11 digits, with up to 4 more after a point")
        }
        guard currency.utf8.count == 3,
            currency.utf8.allSatisfy({ (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) })
        else { throw RequestMembers.wrongType("currency", "three upper-case letters") }
        common = try ReleaseMembers(members)
        guard let expected = members.object["expected"] else {
            authMethod = nil
            return
        }
        guard let object = expected.objectValue, object.members.allSatisfy({ $0.name == "authMethod" }) else {
            throw RequestMembers.wrongType("expected", "an object with no member but authMethod")
        }
        authMethod = object["authMethod"]?.stringValue
        guard authMethod.map(["PAN_ONLY", "CRYPTOGRAM_3DS"].contains) ?? object.members.isEmpty else {
            throw RequestMembers.wrongType("expected.authMethod", "PAN_ONLY or CRYPTOGRAM_3DS")
        }
    }

    /// Returns a request's body, for a client. The payment token is copied unchanged.
    ///
    /// - Parameters:
    ///   - paymentToken: one JSON value.
    ///   - authMethod: ``authMethod``; nil for any that the caller's rule permits.
    ///   - attempt: a new identifier for this request; see ``ReleaseMembers/attempt``.
    ///   - after: at most ``ReleaseMembers/maximumAfter`` attempts; empty without an `attempt`.
    public static func body(
        paymentToken: [UInt8], merchantIdentifier: String, amount: String, currency: String, authMethod: String? = nil,
        reference: String?, attempt: String? = nil, after: [String] = []
    ) -> [UInt8] {
        JSONWriter.object(capacity: paymentToken.count + 512 + after.count * 19) { json in
            json.member("token")
            json.rawValue(paymentToken)
            json.member("merchantIdentifier", merchantIdentifier)
            json.member("amount", amount)
            json.member("currency", currency)
            if let authMethod {
                json.member("expected")
                json.beginObject()
                json.member("authMethod", authMethod)
                json.endObject()
            }
            json.member("reference", reference)
            json.member("attempt", attempt)
            if !after.isEmpty { json.member("after", after) }
        }
    }

    private static func isAmount(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        return (1...2).contains(parts.count) && (1...11).contains(parts[0].count)
            && (parts.count == 1 || (1...4).contains(parts[1].count))
            && parts.allSatisfy { $0.allSatisfy(digits.contains) }
    }
}

/// The client on whose behalf a caller sends a request, from the header `Paytokend-Client`: 1 to 64 printable ASCII
/// characters without spaces.
///
/// The name serves fairness only: the daemon serves the names that one caller gives in rotation. The daemon never records
/// the name, and never trusts it.
public struct ClientName: Sendable, Hashable {
    public static let header = "Paytokend-Client"
    private static let longest = 64

    public let text: String

    /// - Returns: nil if the text does not have this form.
    public init?(_ text: String) {
        guard (1...Self.longest).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return nil
        }
        self.text = text
    }

    /// Reads the values of all `Paytokend-Client` headers of a request.
    ///
    /// - Returns: nil unless there is exactly one value, and it has the required form.
    public init?(headers values: [String]) {
        guard values.count == 1, let value = values.first else { return nil }
        self.init(value)
    }
}
