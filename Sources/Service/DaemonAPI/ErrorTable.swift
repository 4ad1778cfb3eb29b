public import Refusals

/// The only table from a ``RefusalCode`` to its HTTP status, Retry-After and exit status of `paytokenctl`.
///
/// The switch has no default, so that a new ``RefusalCode`` does not compile until it has a row.
public enum ErrorTable {
    public struct Row: Sendable, Equatable {
        /// The HTTP status (RFC 9110 §15).
        public let status: Int
        /// The seconds for the Retry-After header (RFC 9110 §10.2.3); nil if a retry after some time would fail as well.
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
        case .messageExpired, .authMethodNotAllowed: Row(422)

        case .transactionReplayed: Row(409)

        case .invalidState: Row(409)
        case .certificateUnsuitable, .keyNotFound, .approvalInvalid: Row(422)

        // A worker restarts within a second or two. The daemon tries an unavailable ledger again every few seconds. A queue
        // drains within a second.
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

/// The exit statuses of the programs. Statuses from 64 are those of BSD's sysexits.h.
public enum ExitStatus: Int32, Sendable, CaseIterable {
    /// The command succeeded, or the answer to its question is yes.
    case done = 0
    /// The daemon refused the request, or a check found a fault, such as a broken chain or an expiring certificate.
    case no = 1
    /// The record is intact up to its last seal, but nothing shows that the record ended there.
    case endUnknown = 2
    /// EX_USAGE: the command line is wrong.
    case usage = 64
    /// EX_NOINPUT: a file cannot be read.
    case unreadable = 66
    /// EX_UNAVAILABLE: the daemon cannot be reached.
    case unreachable = 69
    /// EX_SOFTWARE: a defect.
    case defect = 70
    /// EX_TEMPFAIL: the operation waits for a second person, or a later attempt may succeed.
    case tryAgainLater = 75
    /// EX_NOPERM: the account may not do this.
    case notPermitted = 77
    /// EX_CONFIG: the configuration is invalid.
    case configuration = 78
}

extension RefusalCode {
    /// The exit status of `paytokenctl` for an answer with this code.
    public var exitStatus: ExitStatus { ErrorTable.row(for: self).exitStatus }
}
