import DatabaseKit

/// What a ledger's file says of its way into a database: since when it does not serve, and where it went.
///
/// It is put just before the database takes over what was copied there: before that the file serves, and from then on it does
/// not, since whether the database has it cannot be told without asking. `schema_version` says the same word meanwhile, so that
/// programs from before there were moves refuse the file too.
struct SQLiteMoveMark: Sendable, Equatable {
    enum State: String, Sendable {
        /// Whether the database has taken over is not known here.
        case moving
        /// It has.
        case moved
    }

    var state: State
    /// By which the database knows itself, `ledger_state.identity`.
    let identity: String
    /// `db1:5432/paytokend`, for people.
    let server: String

    private static let (stateName, identityName, serverName) = ("move_state", "move_identity", "move_server")

    /// Nil for a file that serves.
    static func read(_ db: any StoredQueries) throws -> SQLiteMoveMark? {
        guard let word = try SQLiteLedgerMeta.value(stateName, db) else { return nil }
        guard let state = State(rawValue: word), let identity = try SQLiteLedgerMeta.value(identityName, db),
            let server = try SQLiteLedgerMeta.value(serverName, db)
        else { throw LedgerFailure.unavailable(reason: "What it says of its move is not what this version knows.") }
        return SQLiteMoveMark(state: state, identity: identity, server: server)
    }

    func write(_ db: any StoredQueries) throws {
        for (name, value) in [
            (Self.stateName, state.rawValue), (Self.identityName, identity), (Self.serverName, server),
            ("schema_version", state.rawValue),
        ] {
            try SQLiteLedgerMeta.put(name, value, db)
        }
    }

    /// The file serves again.
    static func remove(_ db: any StoredQueries) throws {
        try SQLiteLedgerMeta.remove([stateName, identityName, serverName], db)
        // A restored file is not moved before its restore was accepted.
        try SQLiteSchemaVersion(number: SQLiteTables.version, isRestored: false).write(db)
    }

    func refusal(path: String, node: String) -> LedgerOpeningError {
        switch state {
        case .moving: .moving(path: path, server: server)
        case .moved: .moved(path: path, server: server, node: node)
        }
    }
}
