import Encodings
public import Foundation
public import Refusals
public import StrictJSON

/// The envelope of `POST /v1/verify`.
public struct VerifyRequest: Sendable {
    public let token: JSONValue
    /// The signing-time window is evaluated at this time instead of now.
    public let at: Date?

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["token", "at"])
        token = try body.required("token")
        guard let text = try body.string("at") else {
            at = nil
            return
        }
        guard let at = RFC3339.date(text) else { throw RequestBody.wrongType("at", "a time of RFC 3339") }
        self.at = at
    }

    /// The request's bytes, for a client.
    ///
    /// - Parameter token: one JSON value; it goes in as it came.
    public static func body(token: [UInt8], at: Date?) -> [UInt8] {
        var json = JSONWriter(capacity: token.count + 64)
        json.beginObject()
        json.member("token")
        json.rawValue(token)
        if let at {
            json.member("at")
            json.string(RFC3339.string(at))
        }
        json.endObject()
        return json.bytes
    }
}
