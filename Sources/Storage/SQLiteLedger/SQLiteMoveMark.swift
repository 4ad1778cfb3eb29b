package import DatabaseKit
import Ledger

/// A ledger file's mark of its move into a database: the move's state, and the database.
///
/// The mark is written just before the database accepts the copied content. A daemon can open the file until then, but
/// not afterwards, since only the database knows whether it accepted the content. `schema_version` is set to the mark's
/// state as well. Programs from before this mark accept only a number as `schema_version`, so they refuse the file too.
package struct SQLiteMoveMark: Sendable, Equatable {
    package enum State: String, Sendable {
        /// The move is under way; the file does not show whether the database has accepted it.
        case moving
        /// The database has accepted the content.
        case moved
    }

    package var state: State
    /// The database's identity, `ledger_state.identity`.
    package let identity: String
    /// The server's name for display, such as `db1:5432/paytokend`.
    package let server: String

    package init(state: State, identity: String, server: String) {
        (self.state, self.identity, self.server) = (state, identity, server)
    }

    private static let (stateName, identityName, serverName) = ("move_state", "move_identity", "move_server")

    /// Reads the mark; nil if the file has none. A daemon can open only a file without a mark.
    package static func read(_ db: any StoredQueries) throws -> SQLiteMoveMark? {
        guard let word = try SQLiteLedgerMeta.value(stateName, db) else { return nil }
        guard let state = State(rawValue: word), let identity = try SQLiteLedgerMeta.value(identityName, db),
            let server = try SQLiteLedgerMeta.value(serverName, db)
        else { throw LedgerFailure.unavailable(reason: "Its move mark has a format that this version does not know.") }
        return SQLiteMoveMark(state: state, identity: identity, server: server)
    }

    package func write(_ db: any StoredQueries) throws {
        for (name, value) in [
            (Self.stateName, state.rawValue), (Self.identityName, identity), (Self.serverName, server),
            ("schema_version", state.rawValue),
        ] {
            try SQLiteLedgerMeta.put(name, value, db)
        }
    }

    /// Removes the mark, so that a daemon can open the file again.
    package static func remove(_ db: any StoredQueries) throws {
        try SQLiteLedgerMeta.remove([stateName, identityName, serverName], db)
        // Only a file without an unaccepted restore can be moved.
        try SQLiteSchemaVersion(number: SQLiteTables.version, isRestored: false).write(db)
    }

    func refusal(path: String, node: String) -> LedgerOpeningError {
        switch state {
        case .moving: .moveUnfinished(path: path, server: server)
        case .moved: .moved(path: path, server: server, node: node)
        }
    }
}
