import PostgreSQLClient

// What the client's errors are for a ledger.

extension PostgreSQLFailure {
    var failure: LedgerFailure { .unavailable(reason: reason) }
}

extension SQLState {
    /// The ledger's schema's own: a daemon wants the name of a node whose file is being moved into the database.
    static let nodeIsMoving = SQLState(known: "PTM01")
}

extension PostgreSQLOpeningFailure {
    var reason: String { reason("ledger.url") }
}
