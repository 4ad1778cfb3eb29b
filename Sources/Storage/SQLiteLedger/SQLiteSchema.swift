package import AuditChain
import DatabaseKit
import Foundation
package import GRDB
import Ledger

/// Creates the tables in an empty ledger file, checks existing tables, and upgrades those of an older version.
package struct SQLiteSchema {
    let path: String
    /// The configured name of the node; nil if none is configured.
    let node: String?

    package init(path: String, node: String?) { (self.path, self.node) = (path, node) }

    /// Creates the tables in an empty database. Otherwise it checks that the tables belong to this program and this
    /// node, and upgrades them from an older version. Before an upgrade it copies the ledger to `….schema-N`, where N
    /// is the old version. The copy is marked like a backup (``SQLiteRestoreMark``).
    ///
    /// - Parameter beforeUpgrade: called before the copy and the upgrade, whose duration grows with the ledger.
    /// - Returns: this node's name.
    func prepare(_ db: Database, beforeUpgrade: () -> Void = {}) throws -> AuditNode {
        if let older = try db.durably({ try existingLedger(db) }), older.version < SQLiteTables.version {
            beforeUpgrade()
            try copy(db, version: older.version, node: older.node)
        }
        return try db.durably {
            guard let found = try existingLedger(db) else { return try create(db) }
            if found.version < SQLiteTables.version { try migrate(db, from: found.version) }
            return found.node
        }
    }

    /// Upgrades a file that no other process uses. The file is itself a copy, so no copy is made before the upgrade.
    ///
    /// - Returns: the previous version.
    package func bringUpToDate(_ db: Database) throws -> Int {
        guard let (version, _) = try existingLedger(db) else { throw LedgerOpeningError.notALedger(path: path) }
        if version < SQLiteTables.version { try migrate(db, from: version) }
        return version
    }

    /// Returns the version and node of the ledger in the database; nil if the database is empty.
    package func existingLedger(_ db: Database) throws -> (version: Int, node: AuditNode)? {
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
        for index in SQLiteTables.withdrawnIndexes { try db.execute(sql: "DROP INDEX IF EXISTS \(index)") }
        for statement in SQLiteTables.steps[version...].joined() { try db.execute(sql: statement) }
        // Preserve the mark of an unaccepted restore.
        let isRestored = try SQLiteSchemaVersion.read(db)?.isRestored ?? false
        try SQLiteSchemaVersion(number: SQLiteTables.version, isRestored: isRestored).write(db)
    }

    /// Copies the file before an upgrade. A copy may already exist, from an earlier start that ended before its
    /// upgrade. That copy may lack later writes, so it is kept and a new copy is made, whose name ends in a number.
    private func copy(_ db: Database, version: Int, node: AuditNode) throws {
        for number in 1...100 {
            let name = "\(path).schema-\(version)" + (number == 1 ? "" : "-\(number)")
            // Remove a copy that an earlier start did not finish. It is not another process's, since the lock excludes one.
            SQLiteBackup.removeUnfinished(name)
            do throws(LedgerBackupError) {
                _ = try SQLiteBackup.copy(db, node: node.name, to: name, markedAt: Date())
                return
            } catch .exists {
                continue
            } catch {
                let reason = "it has the older schema \(version), and copying it before the upgrade failed. \(error)"
                throw if case .cannotWrite = error {
                    LedgerOpeningError.notNow(path: path, reason: reason)
                } else {
                    LedgerOpeningError.cannotOpen(path: path, reason: reason)
                }
            }
        }
        throw LedgerOpeningError.cannotOpen(
            path: path, reason: "it has the older schema \(version), and 100 copies of it exist already.")
    }
}

/// The schema version as stored in a file.
///
/// For an unaccepted restore it is, for example, `restored-4`. Programs from before this prefix accept only a number,
/// so they refuse the file instead of releasing from it.
struct SQLiteSchemaVersion: Sendable, Equatable {
    var number: Int
    var isRestored: Bool

    private static let (name, prefix) = ("schema_version", "restored-")

    /// Reads the version; nil if no version of this program wrote it.
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

/// The tables. Types and STRICT are specific to SQLite. All other SQL here, and nearly all SQL elsewhere, has the same
/// meaning in PostgreSQL. Times are milliseconds since 1970.
package enum SQLiteTables {
    /// The statements that lead from each version to the next; the first list creates version 1. Published statements
    /// never change, since existing files were made with them.
    static let steps = [
        version1, version2, version3, version4, version5, version6, version7, version8, version9, version10,
        googlePayClaims,
    ]

    /// The current version, which rises with every change of a table.
    package static let version = steps.count

    /// The indexes that the first programs of schema 2 and 3 created and later programs do not have.
    static let withdrawnIndexes = ["audit_record_by_caller", "audit_record_by_merchant", "audit_record_by_key"]

    /// Returns true if the database has exactly the tables, indexes and triggers that this version defines. A trigger
    /// from elsewhere, for example, could delete claims.
    package static func match(_ db: Database) throws -> Bool {
        // SQLite stores the text of the statement that created an object. For a table, ALTER TABLE changes that text in
        // a way that depends on SQLite's version. Therefore tables are compared by name and columns, and all other
        // objects by text.
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
        // The merchant keys. A key's state determines whether the key may be used.
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
        // The released transactions and their callers. Rows are only looked up by transaction, so the table itself is
        // the index.
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
        // The chain of records. The column `line` is authoritative. The other columns repeat some members of the line, for
        // searching.
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
        // There is no index by caller, merchant or key. Every release would have to write to such an index. The index
        // would hardly narrow a search, because these columns have only a few different values.
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
        // The keys that sign audit checkpoints. A row is inserted when its key is planned. `public_key` is set once the
        // HSM token contains the key.
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
        // Operations that need, or have received, a second person's approval.
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
        // The use of a key. Before this version all keys were for payments.
        "ALTER TABLE merchant_key ADD COLUMN key_use TEXT NOT NULL DEFAULT 'processing'",
        // Finds the signatures of an identity key, by which its uses are counted. The index is partial, so that a
        // release does not write it.
        """
        CREATE INDEX audit_record_by_signature ON audit_record (public_key_hash, time)
        WHERE event = 'tls_signature' AND outcome = 'ok'
        """,
    ]

    private static let version5 = [
        // The archived beginnings of the chain. `recorded` is the sequence of the archive's own record. An archive
        // takes effect when an audit checkpoint seals that record. In this file, the chain then begins at the record
        // `last` of the newest archive in effect. That record and its audit checkpoint are kept, and earlier ones are
        // removed.
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
        // The account names of `requester_uid` and `requester` on the requesting node. NULL for a uid without an
        // account, and in requests made by earlier versions.
        "ALTER TABLE approval ADD COLUMN requester_account TEXT",
        "ALTER TABLE approval ADD COLUMN requester_login_account TEXT",
    ]

    private static let version7 = [
        // `public_key` may be an RSA key's SubjectPublicKeyInfo. `hsm_token` is the configured name of the HSM token that
        // has the key. It is NULL for keys of earlier versions, until the daemon has found the key in an HSM token.
        """
        CREATE TABLE audit_key_of_any_type (
            node       TEXT    NOT NULL,
            ordinal    INTEGER NOT NULL CHECK (ordinal > 0),
            identifier BLOB    NOT NULL CHECK (length(identifier) = 16),
            public_key BLOB    CHECK (length(public_key) IN (65, 294)),
            planned_at INTEGER NOT NULL,
            hsm_token  TEXT,
            PRIMARY KEY (node, ordinal),
            UNIQUE (node, identifier)
        ) STRICT
        """,
        """
        INSERT INTO audit_key_of_any_type (node, ordinal, identifier, public_key, planned_at)
        SELECT node, ordinal, identifier, public_key, planned_at FROM audit_key
        """,
        "DROP TABLE audit_key",
        "ALTER TABLE audit_key_of_any_type RENAME TO audit_key",
    ]

    private static let version8 = [
        // Finds the signatures of service keys too. The column `key_use` takes their use without a change, but an older
        // program cannot read it.
        "DROP INDEX audit_record_by_signature",
        """
        CREATE INDEX audit_record_by_signature ON audit_record (public_key_hash, time)
        WHERE event IN ('tls_signature', 'jwt_signature') AND outcome = 'ok'
        """,
    ]

    private static let version9 = [
        // Finds the proofs of a key. The index is partial, so that a release does not write it.
        """
        CREATE INDEX audit_record_by_proof ON audit_record (public_key_hash, time) WHERE event = 'key_proof'
        """
    ]

    /// The second name of a claim, of Google Pay's messages only. One row has both names, so that a conflict on either
    /// leaves neither. The index is partial, so that a release of Apple Pay does not write it. An older program can read
    /// neither the column nor a key's use `google-pay`.
    private static let googlePayClaims = [
        "ALTER TABLE claim ADD COLUMN message_claim BLOB CHECK (length(message_claim) = 32)",
        """
        CREATE UNIQUE INDEX claim_by_message ON claim (message_claim) WHERE message_claim IS NOT NULL
        """,
    ]
}
