import AuditChain
import DatabaseKit
import Foundation
import GRDB

/// The schema's version in a file, and the way from an older one to the present one.
struct SQLiteSchema {
    let path: String
    /// As configured.
    let node: String?

    /// Makes the tables in an empty database, brings older ones up to date, or checks that those there are ours and
    /// for this node. An older ledger is copied beside itself first, as `….schema-1` after its version; the
    /// copy is marked as one, like a backup's (``SQLiteRestoreMark``).
    ///
    /// - Parameter beforeUpgrade: called before an older ledger is copied and changed, which takes as long as it is large.
    /// - Returns: this node's name.
    func prepare(_ db: Database, beforeUpgrade: () -> Void = {}) throws -> AuditNode {
        if let older = try db.durably({ try existing(db) }), older.version < SQLiteTables.version {
            beforeUpgrade()
            try copy(db, version: older.version, node: older.node)
        }
        return try db.durably {
            guard let found = try existing(db) else { return try create(db) }
            if found.version < SQLiteTables.version { try migrate(db, from: found.version) }
            return found.node
        }
    }

    /// Of a file that nobody else uses and that is a copy itself, so none is made of it.
    ///
    /// - Returns: the version that it had.
    func bringUpToDate(_ db: Database) throws -> Int {
        guard let (version, _) = try existing(db) else { throw LedgerOpeningError.notALedger(path: path) }
        if version < SQLiteTables.version { try migrate(db, from: version) }
        return version
    }

    /// The version and node of the ledger in the database; nil when the database is empty.
    func existing(_ db: Database) throws -> (version: Int, node: AuditNode)? {
        let tables = try Set(String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'table'"))
        if tables.isEmpty { return nil }
        guard tables.contains("ledger_meta") else { throw LedgerOpeningError.notALedger(path: path) }
        if let mark = try SQLiteMoveMark.read(db) {
            throw mark.refusal(path: path, node: try SQLiteLedgerMeta.value("node", db) ?? "")
        }
        guard let version = try SQLiteSchemaVersion.read(db)?.number,
            let recorded = try SQLiteLedgerMeta.value("node", db).flatMap(AuditNode.init)
        else { throw LedgerOpeningError.notALedger(path: path) }
        guard version <= SQLiteTables.version else {
            throw LedgerOpeningError.newerSchema(path: path, found: version, known: SQLiteTables.version)
        }
        guard node == nil || node == recorded.name else {
            throw LedgerOpeningError.anotherNode(path: path, recorded: recorded.name, configured: node ?? "")
        }
        return (version, recorded)
    }

    private func create(_ db: Database) throws -> AuditNode {
        let name = node ?? HostName.current
        guard let node = AuditNode(name) else { throw LedgerOpeningError.nodeName(name) }
        for statement in SQLiteTables.steps.joined() { try db.execute(sql: statement) }
        try SQLiteSchemaVersion(number: SQLiteTables.version, isRestored: false).write(db)
        for (name, value) in [("node", node.name), ("probed", "0")] {
            try SQLiteLedgerMeta.put(name, value, db)
        }
        return node
    }

    private func migrate(_ db: Database, from version: Int) throws {
        for statement in SQLiteTables.steps[version...].joined() { try db.execute(sql: statement) }
        // A restore stays to be accepted.
        let isRestored = try SQLiteSchemaVersion.read(db)?.isRestored ?? false
        try SQLiteSchemaVersion(number: SQLiteTables.version, isRestored: isRestored).write(db)
    }

    /// A start that ended between the copy and the migration has left a copy behind. It may be older than what was written
    /// since, so it is kept, and this copy gets a number.
    private func copy(_ db: Database, version: Int, node: AuditNode) throws {
        for number in 1...100 {
            let name = "\(path).schema-\(version)" + (number == 1 ? "" : "-\(number)")
            do throws(LedgerBackupError) {
                _ = try SQLiteBackup.copy(db, node: node.name, to: name, markedAt: Date())
                return
            } catch .exists {
                continue
            } catch {
                let reason = "it has the older schema \(version), and its copy failed. \(error)"
                throw if case .cannotWrite = error {
                    LedgerOpeningError.notNow(path: path, reason: reason)
                } else {
                    LedgerOpeningError.cannotOpen(path: path, reason: reason)
                }
            }
        }
        throw LedgerOpeningError.cannotOpen(
            path: path, reason: "it has the older schema \(version), and there are 100 copies of it beside it already.")
    }
}

/// What a file says of its schema.
///
/// After a restore that nobody has accepted it is `restored-4`: programs from before there was such a mark know only numbers there,
/// and refuse the file instead of releasing from it.
struct SQLiteSchemaVersion: Sendable, Equatable {
    var number: Int
    var isRestored: Bool

    private static let (name, prefix) = ("schema_version", "restored-")

    /// Nil for what no version has written.
    static func read(_ db: any StoredQueries) throws -> SQLiteSchemaVersion? {
        guard let text = try SQLiteLedgerMeta.value(name, db) else { return nil }
        let isRestored = text.hasPrefix(prefix)
        guard let number = Int(isRestored ? String(text.dropFirst(prefix.count)) : text), number > 0 else { return nil }
        return SQLiteSchemaVersion(number: number, isRestored: isRestored)
    }

    func write(_ db: any StoredQueries) throws {
        try SQLiteLedgerMeta.put(Self.name, (isRestored ? Self.prefix : "") + String(number), db)
    }
}

/// The tables. Types and STRICT are SQLite's; everything else here and nearly all statements elsewhere are SQL that
/// PostgreSQL reads the same way. Times are milliseconds since 1970.
enum SQLiteTables {
    /// The statements that lead from each version to the next; the first make version 1 from nothing. What is
    /// published here never changes: a file in the field was made by it.
    static let steps = [version1, version2, version3, version4, version5, version6]

    /// Counted up with every change of a table.
    static let version = steps.count

    /// Whether the database has these tables, indexes and triggers and nothing else: a trigger of somebody else's could forget
    /// what was released.
    static func areThese(_ db: Database) throws -> Bool {
        // What ALTER TABLE has made of a table's text is its SQLite's; names, columns and the texts of all else are not.
        func definitions(_ db: Database) throws -> Set<[String?]> {
            let objects = try Row.fetchAll(
                db,
                sql: """
                    SELECT type, name, tbl_name, CASE type WHEN 'table' THEN NULL ELSE sql END FROM sqlite_master
                    WHERE name NOT LIKE 'sqlite_stat_'
                    """)
            let columns = try Row.fetchAll(
                db,
                sql: """
                    SELECT 'column', m.name, c.name, c.type || c."notnull" || c.pk || c.hidden
                    FROM sqlite_master AS m JOIN pragma_table_xinfo(m.name) AS c
                    WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_stat_'
                    """)
            return Set((objects + columns).map { row in row.map { String.fromDatabaseValue($0.1) } })
        }
        let new = try DatabaseQueue()
        defer { try? new.close() }
        let expected = try new.write { db in
            for statement in steps.joined() { try db.execute(sql: statement) }
            return try definitions(db)
        }
        return try definitions(db) == expected
    }

    private static let version1 = [
        """
        CREATE TABLE ledger_meta (
            name  TEXT NOT NULL PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT
        """,
        // What each key may do.
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

    private static let version2 = [
        // The chain of records. The line is what counts; the other columns repeat some of its members to find it by.
        """
        CREATE TABLE audit_record (
            node            TEXT    NOT NULL,
            sequence        INTEGER NOT NULL CHECK (sequence > 0),
            time            INTEGER NOT NULL,
            event           TEXT    NOT NULL,
            outcome         TEXT    NOT NULL,
            caller          TEXT,
            caller_uid      INTEGER,
            merchant        TEXT,
            public_key_hash BLOB,
            transaction_id  BLOB,
            hash            BLOB    NOT NULL CHECK (length(hash) = 32),
            line            BLOB    NOT NULL
        ) STRICT
        """,
        "CREATE UNIQUE INDEX audit_record_by_sequence ON audit_record (node, sequence)",
        "CREATE INDEX audit_record_by_time ON audit_record (node, time, sequence)",
        "CREATE INDEX audit_record_by_outcome ON audit_record (outcome, node, sequence) WHERE outcome <> 'ok'",
        // None by caller, merchant or key: each would cost every release a write, and few values share all records.
        """
        CREATE INDEX audit_record_by_transaction ON audit_record (transaction_id, node, sequence)
        WHERE transaction_id IS NOT NULL
        """,
        """
        CREATE TABLE checkpoint (
            node     TEXT    NOT NULL,
            sequence INTEGER NOT NULL,
            time     INTEGER NOT NULL,
            line     BLOB    NOT NULL,
            PRIMARY KEY (node, sequence)
        ) STRICT
        """,
        // The keys that sign checkpoints: first only planned, and with their public key once the token has them.
        """
        CREATE TABLE audit_key (
            node       TEXT    NOT NULL,
            ordinal    INTEGER NOT NULL CHECK (ordinal > 0),
            identifier BLOB    NOT NULL CHECK (length(identifier) = 16),
            public_key BLOB    CHECK (length(public_key) = 65),
            planned_at INTEGER NOT NULL,
            PRIMARY KEY (node, ordinal),
            UNIQUE (node, identifier)
        ) STRICT
        """,
    ]

    private static let version3 = [
        // Operations that wait for a second person, or waited for one.
        """
        CREATE TABLE approval (
            identifier      BLOB    NOT NULL PRIMARY KEY,
            operation       TEXT    NOT NULL,
            parameters      BLOB    NOT NULL CHECK (length(parameters) = 32),
            public_key_hash BLOB    CHECK (length(public_key_hash) = 32),
            key_state       TEXT,
            requester       INTEGER NOT NULL,
            requester_name  TEXT    NOT NULL,
            requester_uid   INTEGER NOT NULL,
            requester_gid   INTEGER NOT NULL,
            requester_groups TEXT   NOT NULL,
            reason          TEXT    NOT NULL,
            requested_at    INTEGER NOT NULL,
            expires_at      INTEGER NOT NULL,
            status          TEXT    NOT NULL,
            decided_by      INTEGER,
            decided_at      INTEGER,
            node            TEXT    NOT NULL
        ) STRICT
        """,
        "CREATE INDEX approval_by_expiry ON approval (status, expires_at)",
    ]

    private static let version4 = [
        // What a key is for. Until now all were for payments.
        "ALTER TABLE merchant_key ADD COLUMN key_use TEXT NOT NULL DEFAULT 'processing'",
        // An identity key's uses are its records; a release writes nothing here.
        """
        CREATE INDEX audit_record_by_signature ON audit_record (public_key_hash, time)
        WHERE event = 'tls_signature' AND outcome = 'ok'
        """,
    ]

    private static let version5 = [
        // Beginnings of the record that stand in files of their own. `recorded`: the sequence of the record of it. The one whose
        // record a checkpoint seals, of several the last, is where the chain begins here: its record `last` stays with its
        // checkpoint, and what is before that is removed.
        """
        CREATE TABLE archive (
            node     TEXT    NOT NULL,
            first    INTEGER NOT NULL CHECK (first > 0),
            last     INTEGER NOT NULL CHECK (last >= first),
            hash     BLOB    NOT NULL CHECK (length(hash) = 32),
            digest   BLOB    NOT NULL CHECK (length(digest) = 32),
            size     INTEGER NOT NULL CHECK (size > 0),
            recorded INTEGER NOT NULL CHECK (recorded > last),
            PRIMARY KEY (node, last)
        ) STRICT
        """
    ]

    private static let version6 = [
        // The names of the accounts of `requester_uid` and `requester` on the node where it was asked for. NULL where there was none,
        // and in requests that are older than this.
        "ALTER TABLE approval ADD COLUMN requester_account TEXT",
        "ALTER TABLE approval ADD COLUMN requester_login_account TEXT",
    ]
}
