/// A refusal on its way to the caller: what was wrong, with what, and what to do.
///
/// Both texts are shown to the caller and written to logs. They never contain an account number, a cryptogram, a
/// key, a PIN or a piece of a request's body: build them from fixed sentences, names of members, sizes and times.
public struct Refusal: Error, Sendable, Equatable {
    public let code: RefusalCode
    /// One sentence for a person.
    public let message: String
    /// What narrows it down, where that gives nothing away: a member's name, a size, a time.
    public let details: String?
    /// Seconds for the Retry-After header, where this refusal knows better than the table of codes.
    public let retryAfter: Int?

    public init(_ code: RefusalCode, _ message: String, details: String? = nil, retryAfter: Int? = nil) {
        self.code = code
        self.message = message
        self.details = details
        self.retryAfter = retryAfter
    }
}

/// The closed set of codes with which the daemon says no.
///
/// The raw value is the `code` member of a refusal's JSON and the `outcome` of metrics and records: it is public
/// contract and never changes. The mapping to HTTP statuses is not here but in one table, `ErrorTable` in DaemonAPI.
public enum RefusalCode: String, CaseIterable, Sendable, Hashable {
    // The request and its envelope.
    case malformedRequest = "malformed_request"
    case malformedToken = "malformed_token"
    case unsupportedVersion = "unsupported_version"
    case forbidden
    case notFound = "not_found"
    case methodNotAllowed = "method_not_allowed"
    case requestTimeout = "request_timeout"
    case requestTooLarge = "request_too_large"
    case unsupportedMediaType = "unsupported_media_type"

    // Apple's signature.
    case signatureInvalid = "signature_invalid"
    case certificateUntrusted = "certificate_untrusted"
    case markerOIDMissing = "marker_oid_missing"
    case signingTimeOutsideWindow = "signing_time_outside_window"

    // The merchant's key.
    case unknownPublicKeyHash = "unknown_public_key_hash"
    case keyNotActive = "key_not_active"
    case decryptionFailed = "decryption_failed"

    // What the caller expected.
    case merchantMismatch = "merchant_mismatch"
    case currencyMismatch = "currency_mismatch"
    case amountMismatch = "amount_mismatch"
    case applicationDataMismatch = "application_data_mismatch"

    // Released before.
    case transactionReplayed = "transaction_replayed"

    // Administration.
    case invalidState = "invalid_state"
    case certificateUnsuitable = "certificate_unsuitable"
    case keyNotFound = "key_not_found"
    case approvalInvalid = "approval_invalid"

    // Not now.
    case hsmUnavailable = "hsm_unavailable"
    case ledgerUnavailable = "ledger_unavailable"
    case overloaded
    case deadlineExceeded = "deadline_exceeded"

    /// A defect. Nothing of it reaches the caller.
    case internalError = "internal_error"
}
