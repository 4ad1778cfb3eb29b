public import Refusals

/// The only table that translates the daemon's internal codes for callers: an HTTP status, the seconds after which a retry
/// makes sense, and the exit status of `paytokenctl`.
///
/// The switch has no default, so that a new ``RefusalCode`` does not compile until it has a row.
public enum ErrorTable {
    public struct Row: Sendable, Equatable {
        /// HTTP status (RFC 9110 §15).
        public let status: Int
        /// Seconds for the Retry-After header (RFC 9110 §10.2.3); nil if waiting changes nothing.
        public let retryAfter: Int?
        public let exitStatus: ExitStatus
    }

    public static func row(for code: RefusalCode) -> Row {
        switch code {
        case .malformedRequest, .malformedToken, .unsupportedVersion: Row(400)
        case .forbidden: Row(403, exit: .notPermitted)
        case .notFound: Row(404)
        case .methodNotAllowed: Row(405)
        case .requestTimeout: Row(408, exit: .tryAgainLater)
        case .requestTooLarge: Row(413)
        case .unsupportedMediaType: Row(415)

        case .signatureInvalid, .certificateUntrusted, .markerOIDMissing, .signingTimeOutsideWindow: Row(422)
        case .unknownPublicKeyHash, .keyNotActive, .decryptionFailed: Row(422)
        case .merchantMismatch, .currencyMismatch, .amountMismatch, .applicationDataMismatch: Row(422)

        case .transactionReplayed: Row(409)

        case .invalidState: Row(409)
        case .certificateUnsuitable, .keyNotFound, .approvalInvalid: Row(422)

        // A worker is restarted within a second or two, and an unavailable ledger is tried again every few seconds. A queue
        // drains faster than either.
        case .hsmUnavailable: Row(503, retryAfter: 2, exit: .tryAgainLater)
        case .ledgerUnavailable: Row(503, retryAfter: 5, exit: .tryAgainLater)
        case .overloaded: Row(503, retryAfter: 1, exit: .tryAgainLater)
        case .deadlineExceeded: Row(503, retryAfter: 1, exit: .tryAgainLater)

        case .internalError: Row(500, exit: .defect)
        }
    }
}

extension ErrorTable.Row {
    fileprivate init(_ status: Int, retryAfter: Int? = nil, exit: ExitStatus = .no) {
        self.init(status: status, retryAfter: retryAfter, exitStatus: exit)
    }
}

/// The exit statuses of the programs: yes, no, and the codes of BSD's sysexits.h that scripts know.
public enum ExitStatus: Int32, Sendable, CaseIterable {
    /// Yes; done.
    case done = 0
    /// No: refused, chain broken, something expiring found.
    case no = 1
    /// Intact up to the last seal, but nothing shows that it was the end of the record.
    case endUnknown = 2
    /// EX_USAGE: the command line is wrong.
    case usage = 64
    /// EX_NOINPUT: a file cannot be read.
    case unreadable = 66
    /// EX_UNAVAILABLE: the daemon cannot be reached.
    case unreachable = 69
    /// EX_SOFTWARE: a defect.
    case defect = 70
    /// EX_TEMPFAIL: waiting for a second person, or worth another attempt later.
    case tryAgainLater = 75
    /// EX_NOPERM.
    case notPermitted = 77
    /// EX_CONFIG.
    case configuration = 78
}

extension RefusalCode {
    /// The exit status of `paytokenctl` for an answer with this code.
    public var exitStatus: ExitStatus { ErrorTable.row(for: self).exitStatus }
}
