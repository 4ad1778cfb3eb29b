import Encodings
public import Foundation
public import Refusals
public import StrictJSON

/// The envelope of `POST /v1/decrypt`. What is inside `token` and `expected` is read by those whose types they are.
public struct DecryptRequest: Sendable {
    /// The payment token, of any JSON type.
    public let token: JSONValue
    public let expected: JSONObject?
    /// 1 to 128 printable ASCII characters.
    public let reference: String?

    /// - Throws: `malformed_request`; `malformed_token` where a name is repeated inside `token`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let members = try RequestMembers(parsing: body, known: ["token", "expected", "reference"])
        token = try members.required("token")
        expected = members.object["expected"]?.objectValue
        guard expected != nil || members.object["expected"] == nil else {
            throw RequestMembers.wrongType("expected", "an object")
        }
        reference = try members.string("reference")
        if let reference, !Self.isReference(reference) {
            throw Refusal(
                .malformedRequest, "reference is not 1 to 128 printable ASCII characters.", details: "reference")
        }
    }

    public static func isReference(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }

    /// The request's bytes, for a client. The payment token goes in as it came, so that nothing of it changes on the way.
    ///
    /// - Parameter paymentToken: one JSON value.
    public static func body(paymentToken: [UInt8], expected: JSONObject?, reference: String?) -> [UInt8] {
        var json = JSONWriter(capacity: paymentToken.count + 512)
        json.beginObject()
        json.member("token")
        json.rawValue(paymentToken)
        if let expected {
            json.member("expected")
            json.value(.object(expected))
        }
        if let reference {
            json.member("reference")
            json.string(reference)
        }
        json.endObject()
        return json.bytes
    }
}

/// The envelope of `POST /v1/verify`.
public struct VerifyRequest: Sendable {
    public let token: JSONValue
    /// The signing-time window is evaluated at this time instead of now.
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

    /// The request's bytes, for a client.
    ///
    /// - Parameters:
    ///   - paymentToken: one JSON value; it goes in as it came.
    ///   - at: a time of RFC 3339 as somebody wrote it, so that nothing of it is rounded.
    public static func body(paymentToken: [UInt8], at: String?) -> [UInt8] {
        var json = JSONWriter(capacity: paymentToken.count + 64)
        json.beginObject()
        json.member("token")
        json.rawValue(paymentToken)
        if let at {
            json.member("at")
            json.string(at)
        }
        json.endObject()
        return json.bytes
    }
}
