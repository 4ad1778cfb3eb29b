import GRDB

/// What a ledger's file says of itself: `ledger_meta`, names and values.
enum SQLiteLedgerMeta {
    static func value(_ name: String, _ db: Database) throws -> String? {
        try String.fetchOne(
            db.cachedStatement(sql: "SELECT value FROM ledger_meta WHERE name = ?"), arguments: [name])
    }

    static func put(_ name: String, _ value: String, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO ledger_meta (name, value) VALUES (?, ?)
                ON CONFLICT (name) DO UPDATE SET value = excluded.value
                """, arguments: [name, value])
    }

    static func remove(_ names: [String], _ db: Database) throws {
        for name in names { try db.execute(sql: "DELETE FROM ledger_meta WHERE name = ?", arguments: [name]) }
    }
}
