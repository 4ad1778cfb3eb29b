/// A refusal for the caller: the fault, the part of the request that contains it, and the remedy.
///
/// ``message`` and ``details`` are sent to the caller and logged. They never contain an account number, a cryptogram, a
/// key, a PIN or a part of a request's body. Build them only from fixed sentences, names of JSON members, sizes and
/// times.
public struct Refusal: Error, Sendable, Equatable {
    public let code: RefusalCode
    /// One sentence for the person who reads the refusal.
    public let message: String
    /// More precise information that reveals nothing secret: a member's name, a size, a time.
    public let details: String?
    /// The number of seconds for the Retry-After header; nil to use the value that `ErrorTable` has for the code.
    public let retryAfter: Int?

    public init(_ code: RefusalCode, _ message: String, details: String? = nil, retryAfter: Int? = nil) {
        self.code = code
        self.message = message
        self.details = details
        self.retryAfter = retryAfter
    }

    /// The message and the details, for a log or an operator.
    public var reason: String { [message, details].compactMap(\.self).joined(separator: " ") }
}

/// The closed set of codes for the daemon's refusals.
///
/// The raw value is the `code` member of a refusal's JSON and the `outcome` in metrics and audit records. It is part
/// of the public contract and never changes. The HTTP statuses are in one table, `ErrorTable` in DaemonAPI.
public enum RefusalCode: String, CaseIterable, Sendable, Hashable {
    // Faults of the request and its envelope.
    case malformedRequest = "malformed_request"
    case malformedToken = "malformed_token"
    case unsupportedVersion = "unsupported_version"
    case forbidden
    case notFound = "not_found"
    case methodNotAllowed = "method_not_allowed"
    case requestTimeout = "request_timeout"
    case requestTooLarge = "request_too_large"
    case unsupportedMediaType = "unsupported_media_type"

    // Faults of Apple's signature.
    case signatureInvalid = "signature_invalid"
    case certificateUntrusted = "certificate_untrusted"
    case markerOIDMissing = "marker_oid_missing"
    case signingTimeOutsideWindow = "signing_time_outside_window"

    // Faults of the merchant's key.
    case unknownPublicKeyHash = "unknown_public_key_hash"
    case keyNotActive = "key_not_active"
    case decryptionFailed = "decryption_failed"

    // Values in the payment token that differ from those that the caller expects.
    case merchantMismatch = "merchant_mismatch"
    case currencyMismatch = "currency_mismatch"
    case amountMismatch = "amount_mismatch"
    case applicationDataMismatch = "application_data_mismatch"

    // Values in a Google Pay message that forbid its release.
    case messageExpired = "message_expired"
    case authMethodNotAllowed = "auth_method_not_allowed"

    // An earlier release of the same payment token.
    case transactionReplayed = "transaction_replayed"

    // Refusals of administrative requests.
    case invalidState = "invalid_state"
    case certificateUnsuitable = "certificate_unsuitable"
    case keyNotFound = "key_not_found"
    case approvalInvalid = "approval_invalid"

    // Temporary conditions, after which the caller may try again.
    case hsmUnavailable = "hsm_unavailable"
    case ledgerUnavailable = "ledger_unavailable"
    case overloaded
    case deadlineExceeded = "deadline_exceeded"

    /// A defect of the daemon. The caller receives no details.
    case internalError = "internal_error"
}
