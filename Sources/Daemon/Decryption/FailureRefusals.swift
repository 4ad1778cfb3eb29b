import Ledger
import PaymentToken
import Refusals
import WorkerProtocol

extension WorkerFailure {
    /// The one place where what a worker says becomes what a caller hears. The worker's own sentence names PKCS#11
    /// calls and belongs in the log, not in an answer.
    var refusal: Refusal {
        switch kind {
        case .decryptionFailed:
            // The same refusal as for a point off the curve and a payload that is no JSON: a sentence of its own would
            // tell them apart.
            .decryptionFailed
        case .keyNotFound:
            Refusal(.hsmUnavailable, "The merchant key is recorded, but the token does not show it at present.")
        case .notSupported:
            Refusal(.hsmUnavailable, "The token cannot restore this version's symmetric keys; status says why.")
        case .overloaded:
            Refusal(.overloaded, "Too many decryptions wait for the token.")
        case .inputQuarantined:
            Self.refusedInput(for: retryAfter ?? Int(QuarantinedInputs.period.components.seconds))
        case .tokenUnavailable, .loginRefused:
            Refusal(.hsmUnavailable, "The token that holds the merchant keys is not available at present.")
        case .deadlineExceeded:
            Refusal(.deadlineExceeded, "The token did not answer in time; repeat with the same reference.")
        case .importRefused:
            Refusal(.invalidState, "The token refused the key operation.", details: message)
        case .auditRefused:
            Refusal(.hsmUnavailable, "The token does not do its part for the key-usage record.", details: message)
        case .protocolViolation:
            Refusal(.internalError, "The daemon has a defect; its log has more.")
        }
    }

    private static func refusedInput(for seconds: Int) -> Refusal {
        Refusal(
            .hsmUnavailable,
            "This token was in flight when two workers ended, and is not tried again for \(seconds) s.",
            retryAfter: seconds)
    }
}

extension LedgerFailure {
    /// The one place where the ledger's troubles become what a caller hears; a reason belongs in the log.
    var refusal: Refusal {
        switch self {
        case .overloaded:
            Refusal(.overloaded, "More requests wait for the ledger than may wait; repeat with the same reference.")
        case .unavailable, .timedOut, .foreignCheckpoint, .auditKeyConflict:
            Refusal(
                .ledgerUnavailable,
                "The ledger cannot be used at present, so nothing is released; repeat with the same reference.")
        case .approval(let conflict):
            Refusal(.approvalInvalid, conflict.description)
        case .timesConflict:
            Refusal(.invalidState, description)
        case .conflict(let conflict):
            Refusal(.invalidState, conflict.description)
        }
    }
}
