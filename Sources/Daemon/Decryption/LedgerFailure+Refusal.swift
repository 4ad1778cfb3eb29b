import Ledger
import Refusals

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
