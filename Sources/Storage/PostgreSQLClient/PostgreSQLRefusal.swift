/// The reason why a store on a server cannot be opened, created or upgraded. Each store converts it to its own error.
package enum PostgreSQLRefusal: Error {
    /// The schema contains tables or other objects that are not this store's.
    case notOurs
    /// The database contains no tables of this store.
    case noTables
    case newer(found: Int)
    case older(found: Int)
    case missingRight
    /// A later attempt may succeed with the same configuration.
    case temporary(reason: String)
    /// No later attempt can succeed until the operator has corrected the cause. `reason` says what to do.
    case permanent(reason: String)

    /// Creates the refusal for an error that this module throws; nil for any other error.
    ///
    /// - Parameter setting: the name of the configuration setting that contains the URL, such as `ledger.url`.
    package init?(of error: any Error, url setting: String) {
        switch error {
        case let error as PostgreSQLRefusal: self = error
        case let error as PostgreSQLOpeningFailure:
            let reason = error.reason(setting)
            self = error.isTransient ? .temporary(reason: reason) : .permanent(reason: reason)
        case PostgreSQLFailure.refused(.undefinedTable, _), PostgreSQLFailure.refused(.invalidSchema, _):
            self = .noTables
        case PostgreSQLFailure.refused(.insufficientPrivilege, _): self = .missingRight
        case PostgreSQLFailure.refused(let state, _) where !state.endsUse && state != .lockNotAvailable:
            self = .permanent(reason: PostgreSQLFailure.refused(state, statement: 0).reason)
        case let error as PostgreSQLFailure: self = .temporary(reason: error.reason)
        default: return nil
        }
    }
}
