package import Ledger
import PostgreSQLClient

// Converts errors of the PostgreSQL client into errors of the ledger.

extension PostgreSQLFailure {
    package var failure: LedgerFailure { LedgerFailure(self) }
}

extension SQLState {
    /// An SQLSTATE of the ledger's schema: a daemon asks for the name of a node whose file is being moved into the
    /// database.
    static let nodeIsMoving = SQLState(known: "PTM01")
}

extension PostgreSQLOpeningFailure {
    var reason: String { reason("ledger.url") }
}
