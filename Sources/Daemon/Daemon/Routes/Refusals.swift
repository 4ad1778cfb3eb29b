import DaemonAPI
import HTTPListener
import Refusals

extension HTTPAnswer {
    /// The one place where a refusal becomes an answer: its JSON, with status and Retry-After from the error table, or
    /// its own Retry-After.
    ///
    /// - Parameter audit: the refusal's own record, where it was recorded.
    init(refusal: Refusal, audit: AuditReference? = nil) {
        let row = ErrorTable.row(for: refusal.code)
        let retryAfter = (refusal.retryAfter ?? row.retryAfter).map {
            [Header(name: "Retry-After", value: String($0))]
        }
        // After these two the rest of the request may still be on its way, and would be read as the next one.
        let closes = refusal.code == .requestTimeout || refusal.code == .requestTooLarge
        self = .json(
            status: row.status, RefusalAnswer(refusal, audit: audit).json, headers: retryAfter ?? [], closes: closes)
    }
}

extension Refusal {
    /// For what cannot happen unless this program is wrong. The caller learns only that.
    static let defect = Refusal(.internalError, "The daemon has a defect; its log says more.")

    /// For a request whose work was not begun, or not taken to the HSM, because no answer can be delivered.
    static let peerHasLeft = Refusal(
        .deadlineExceeded, "The caller closed its connection before the HSM was asked; nothing was released.")
}
