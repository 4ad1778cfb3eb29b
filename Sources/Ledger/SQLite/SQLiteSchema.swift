import Foundation
import GRDB

/// The tables. Types are SQLite's; everything else here and all statements elsewhere are SQL that PostgreSQL reads
/// the same way.
enum SQLiteSchema {
    /// Counted up with every change of a table.
    static let version = 1

    /// Makes the tables in an empty database, or checks that those there are ours and for this node.
    ///
    /// - Returns: this node's name.
    static func prepare(_ db: Database, path: String, node: String?, hostName: String) throws -> String {
        try db.durably {
            let tables = try Set(String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'table'"))
            if tables.isEmpty { return try create(db, node: node ?? hostName) }
            guard tables.contains("ledger_meta"), let found = try value(db, "schema_version").flatMap({ Int($0) }),
                let recorded = try value(db, "node")
            else { throw LedgerOpeningError.notALedger(path: path) }
            guard found <= version else {
                throw LedgerOpeningError.newerSchema(path: path, found: found, known: version)
            }
            guard node == nil || node == recorded else {
                throw LedgerOpeningError.anotherNode(path: path, recorded: recorded, configured: node ?? "")
            }
            return recorded
        }
    }

    private static func value(_ db: Database, _ name: String) throws -> String? {
        try String.fetchOne(db, sql: "SELECT value FROM ledger_meta WHERE name = ?", arguments: [name])
    }

    private static func create(_ db: Database, node: String) throws -> String {
        guard NodeName.isValid(node) else { throw LedgerOpeningError.nodeName(node) }
        for statement in tables { try db.execute(sql: statement) }
        for (name, value) in [("schema_version", String(version)), ("node", node), ("probed", "0")] {
            try db.execute(sql: "INSERT INTO ledger_meta (name, value) VALUES (?, ?)", arguments: [name, value])
        }
        return node
    }

    private static let tables = [
        """
        CREATE TABLE ledger_meta (
            name  TEXT NOT NULL PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT
        """,
        // What each key may do. Times are milliseconds since 1970.
        """
        CREATE TABLE merchant_key (
            public_key_hash     BLOB    NOT NULL PRIMARY KEY CHECK (length(public_key_hash) = 32),
            merchant_identifier TEXT    NOT NULL,
            algorithm           TEXT    NOT NULL,
            state               TEXT    NOT NULL,
            cut_off             INTEGER,
            origin              TEXT    NOT NULL,
            created_at          INTEGER NOT NULL,
            node                TEXT    NOT NULL
        ) STRICT
        """,
        // Which transaction was released to whom. Rows are found by transaction only, so the table is the index.
        """
        CREATE TABLE claim (
            transaction_id   BLOB    NOT NULL PRIMARY KEY CHECK (length(transaction_id) = 32),
            public_key_hash  BLOB    NOT NULL REFERENCES merchant_key (public_key_hash),
            caller           TEXT    NOT NULL,
            reference_digest BLOB,
            content_digest   BLOB    NOT NULL,
            attempt          BLOB    NOT NULL,
            claimed_at       INTEGER NOT NULL,
            repeats          INTEGER NOT NULL DEFAULT 0,
            repeat_attempt   BLOB,
            repeated_at      INTEGER,
            node             TEXT    NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX claim_by_age ON claim (claimed_at)",
    ]
}
