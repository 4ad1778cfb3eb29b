public import Refusals

/// The body of `POST /v1/audit/key`.
public struct AuditKeyChangeRequest: Codable, Sendable, Equatable {
    /// Why, for the record.
    public var reason: String

    public init(reason: String) {
        self.reason = reason
    }

    /// Reads the body strictly.
    ///
    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["reason"])
        reason = try body.reason()
    }
}
