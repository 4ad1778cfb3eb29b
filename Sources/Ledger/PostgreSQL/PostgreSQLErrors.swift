import PostgreSQLClient

// What the client's errors are for a ledger.

extension PostgreSQLFailure {
    var failure: LedgerFailure {
        switch self {
        case .refused(let state, _): .unavailable(reason: "PostgreSQL says \(state).")
        case .lost(let state?): .unavailable(reason: "The session with PostgreSQL ended: \(state).")
        case .lost(nil): .unavailable(reason: "The connection to PostgreSQL broke or cannot be made.")
        case .late: .unavailable(reason: "PostgreSQL does not answer.")
        }
    }
}

extension PostgreSQLRowError {
    var failure: LedgerFailure {
        .unavailable(
            reason: "Column \(column + 1) of a row is not what this version knows: another program changed the ledger.")
    }
}

extension SQLState {
    /// The ledger's schema's own: a daemon wants the name of a node whose file is being moved into the database.
    static let nodeIsMoving = SQLState(known: "PTM01")
}

extension PostgreSQLOpeningFailure {
    var reason: String {
        switch self {
        case .unreachable: "no host of ledger.url can be reached."
        case .late: "no host of ledger.url answers in time."
        case .tls: "TLS with the server fails; look at its certificate, and at sslmode and sslrootcert in ledger.url."
        case .login: "the server refuses the login; look at the role, its password file and pg_hba.conf."
        case .noDatabase: "the server has no such database."
        case .readOnly: "no host of ledger.url takes writes; is there a primary?"
        case .tooManyConnections: "the server has no connection left."
        case .passwordFile(let error): error.description
        }
    }
}
