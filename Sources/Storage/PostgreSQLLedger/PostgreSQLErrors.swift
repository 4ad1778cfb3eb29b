package import Ledger
package import PostgreSQLClient

// Converts errors of the PostgreSQL client into errors of the ledger.

extension PostgreSQLFailure {
    package var failure: LedgerFailure { LedgerFailure(self) }
}

extension SQLState {
    /// The SQLSTATE with which the ledger's schema refuses a node's name to a daemon while the node's file is being
    /// moved into the database.
    static let nodeIsMoving = SQLState(known: "PTM01")
}

extension LedgerOpeningError: StoreOpeningError {
    package init(of error: any Error, server: String) {
        self =
            switch error {
            case let error as LedgerOpeningError: error
            case PostgreSQLFailure.refused(.nodeIsMoving, _):
                .cannotOpen(
                    path: server,
                    reason:
                        "the move of this node's former ledger, a file, into this database is not complete. Repeat "
                        + "the move.")
            default:
                LedgerOpeningError(PostgreSQLRefusal(of: error, url: "ledger.url"), server: server)
                    ?? .cannotOpen(path: server, reason: LedgerFailure(error).description)
            }
    }

    private init?(_ refusal: PostgreSQLRefusal?, server: String) {
        let known = PostgreSQLSchema.version
        switch refusal {
        case nil: return nil
        case .notOurs: self = .notALedger(path: server)
        case .noTables: self = .noSchema(server: server)
        case .newer(let found): self = .newerSchema(path: server, found: found, known: known)
        case .older(let found): self = .olderSchema(server: server, found: found, known: known)
        case .missingRight:
            self = .cannotOpen(
                path: server, reason: "its role lacks a privilege. Grant it with the account of the ledger's owner.")
        case .temporary(let reason): self = .unreachable(server: server, reason: reason)
        case .permanent(let reason): self = .cannotOpen(path: server, reason: reason)
        }
    }
}
