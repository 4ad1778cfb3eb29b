public import Refusals

/// The body of `POST /v1/ledger/accept-restore` and of `POST /v1/ledger/accept-clock`.
public struct LedgerAcceptanceRequest: Codable, Sendable, Equatable {
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
        reason = try body.requiredString("reason")
        guard !reason.isEmpty else {
            throw Refusal(.malformedRequest, "reason is empty: the record should say why.", details: "reason")
        }
    }
}

/// The body of `POST /v1/ledger/backup`: an object without members.
public enum LedgerBackupRequest {
    /// What to send.
    public static let body = Array("{}".utf8)

    /// Reads the body strictly.
    ///
    /// - Throws: `malformed_request`.
    public static func check(_ body: [UInt8]) throws(Refusal) {
        _ = try RequestBody(parsing: body, known: [])
    }
}

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
