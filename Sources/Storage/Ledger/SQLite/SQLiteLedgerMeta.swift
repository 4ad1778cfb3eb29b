import DatabaseKit

/// The description of a ledger's file by itself: `ledger_meta`, names and values.
enum SQLiteLedgerMeta {
    static func value(_ name: String, _ db: any StoredQueries) throws -> String? {
        try db.run("SELECT value FROM ledger_meta WHERE name = $1", [.text(name)]).first?.text(0)
    }

    static func put(_ name: String, _ value: String, _ db: any StoredQueries) throws {
        try db.run(
            """
            INSERT INTO ledger_meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value
            """, [.text(name), .text(value)])
    }

    static func remove(_ names: [String], _ db: any StoredQueries) throws {
        for name in names { try db.run("DELETE FROM ledger_meta WHERE name = $1", [.text(name)]) }
    }
}
