import DaemonAPI
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

/// A failure of a part of the daemon that has one wording for callers. The failure's own words belong in the log.
protocol RefusalConvertible: Error {
    var refusal: Refusal { get }
}

/// Makes a call whose failure the caller hears as the refusal that it stands for:
///
///     let head = try await refusing(LedgerFailure.self, await ledger.head())
///
/// The failure's type is named because Swift infers none for a closure.
func refusing<Value, Failure: RefusalConvertible>(
    _: Failure.Type, isolation: isolated (any Actor)? = #isolation,
    _ call: @autoclosure () async throws(Failure) -> Value
) async throws(Refusal) -> Value {
    do throws(Failure) {
        return try await call()
    } catch {
        throw error.refusal
    }
}

extension Refusal {
    /// For what cannot happen unless this program is wrong. The caller learns only that.
    static let defect = Refusal(.internalError, "The daemon has a defect; its log says more.")
}
