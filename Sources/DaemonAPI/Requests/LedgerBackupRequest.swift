public import Refusals

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
