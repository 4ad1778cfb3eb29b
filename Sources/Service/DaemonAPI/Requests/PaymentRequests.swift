import Encodings
public import Foundation
public import Refusals
public import StrictJSON

/// The envelope of `POST /v1/decrypt`. The contents of `token` and `expected` are parsed by their own types.
public struct DecryptRequest: Sendable {
    /// The payment token, of any JSON type.
    public let token: JSONValue
    public let expected: JSONObject?
    /// 1 to 128 printable ASCII characters.
    public let reference: String?
    /// The caller's name for this request; see ``isAttempt(_:)``.
    public let attempt: String?
    /// The attempts after whose release this one may be released too; empty without an `attempt`.
    public let after: [String]
    /// The merchants for which the caller asks, as patterns in which `*` matches any characters; nil for all that its access
    /// rule allows. A payment token of another merchant is refused before its transaction is claimed.
    public let merchants: [String]?

    /// The maximum number of patterns in ``merchants``, each of 1 to ``maximumPatternBytes`` bytes.
    public static let maximumMerchants = 100
    public static let maximumPatternBytes = 255
    /// The `details` of the refusal if ``merchants`` does not match the payment token's merchant: `forbidden` by the request,
    /// not by a rule.
    public static let merchantsDetails = "merchants"

    /// Returns the refusal of a request whose ``expected`` lacks members that the caller's access rule requires.
    public static func lacksExpected(_ members: [String]) -> Refusal {
        Refusal(
            .malformedRequest,
            "The caller's access rule requires members of expected that the request lacks; send them.",
            details: members.map { "expected.\($0)" }.joined(separator: ", ") + missing)
    }

    /// Returns true for the `details` of ``lacksExpected(_:)``.
    public static func isMissingExpected(_ code: RefusalCode, details: String?) -> Bool {
        code == .malformedRequest && details?.hasSuffix(missing) == true
    }

    private static let missing = " missing, which the access rule requires"

    /// The maximum number of names in ``after``; no transaction has more repeats.
    public static let maximumAfter = 100

    /// - Throws: `malformed_request`; `malformed_token` if a member name is repeated inside `token`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let members = try RequestMembers(
            parsing: body, known: ["token", "expected", "reference", "attempt", "after", "merchants"])
        token = try members.required("token")
        expected = members.object["expected"]?.objectValue
        guard expected != nil || members.object["expected"] == nil else {
            throw RequestMembers.wrongType("expected", "an object")
        }
        reference = try members.string("reference")
        try Self.check(reference: reference)
        attempt = try members.string("attempt")
        after = try members.texts("after", 0...Self.maximumAfter, Self.attemptForm, Self.isAttempt) ?? []
        merchants = try members.texts(
            "merchants", 1...Self.maximumMerchants, "1 to \(Self.maximumPatternBytes) bytes"
        ) { (1...Self.maximumPatternBytes).contains($0.utf8.count) }
        guard attempt.map(Self.isAttempt) ?? true else { throw RequestMembers.wrongType("attempt", Self.attemptForm) }
        guard attempt != nil || members.object["after"] == nil else {
            throw Refusal(.malformedRequest, "after needs an attempt.", details: "after")
        }
        // If an attempt named itself, the same request sent twice would be released twice.
        guard attempt.map({ !after.contains($0) }) ?? true else {
            throw Refusal(.malformedRequest, "after names the attempt itself.", details: "after")
        }
    }

    private static let attemptForm = "16 lower-case hexadecimal digits that are not all zero"

    public static func isReference(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }

    static func check(reference: String?) throws(Refusal) {
        guard reference.map(isReference) ?? true else {
            throw Refusal(
                .malformedRequest, "reference is not 1 to 128 printable ASCII characters.", details: "reference")
        }
    }

    /// Returns true for 16 lower-case hexadecimal digits that are not all zero: 8 bytes, which the caller chooses at random
    /// for each request and uses once.
    public static func isAttempt(_ text: String) -> Bool {
        text.utf8.count == 16 && Hexadecimal.isLowerCase(text.utf8) && text.utf8.contains { $0 != UInt8(ascii: "0") }
    }

    /// Returns a request's bytes, for a client. The payment token is copied unchanged.
    ///
    /// - Parameters:
    ///   - paymentToken: one JSON value.
    ///   - attempt: a new name for this request; see ``isAttempt(_:)``.
    ///   - after: only with an attempt: the attempts after whose release this one may be released too, at most ``maximumAfter``.
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

/// The envelope of `POST /v1/verify`.
public struct VerifyRequest: Sendable {
    public let token: JSONValue
    /// The time at which the signing-time window is evaluated; nil for now.
    public let at: Date?

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let members = try RequestMembers(parsing: body, known: ["token", "at"])
        token = try members.required("token")
        guard let text = try members.string("at") else {
            at = nil
            return
        }
        guard let at = RFC3339.date(text) else { throw RequestMembers.wrongType("at", "a time of RFC 3339") }
        self.at = at
    }

    /// Returns a request's bytes, for a client.
    ///
    /// - Parameters:
    ///   - paymentToken: one JSON value, which is copied unchanged.
    ///   - at: an RFC 3339 time, as a text so that it is not rounded.
    public static func body(paymentToken: [UInt8], at: String?) -> [UInt8] {
        JSONWriter.object(capacity: paymentToken.count + 64) { json in
            json.member("token")
            json.rawValue(paymentToken)
            json.member("at", at)
        }
    }
}

/// The client on whose behalf a caller asks, from the header `Paytokend-Client`: 1 to 64 printable ASCII characters without
/// blanks.
///
/// The name serves fairness only: a caller's turns rotate among the names that it gives. It is never recorded and never
/// trusted.
public struct ClientName: Sendable, Hashable {
    public static let header = "Paytokend-Client"
    private static let longest = 64

    public let text: String

    /// - Returns: nil for a text of another form.
    public init?(_ text: String) {
        guard (1...Self.longest).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return nil
        }
        self.text = text
    }

    /// Reads the values of a request's headers of that name.
    ///
    /// - Returns: nil if there is no value, more than one, or one of another form.
    public init?(headers values: [String]) {
        guard values.count == 1, let value = values.first else { return nil }
        self.init(value)
    }
}
