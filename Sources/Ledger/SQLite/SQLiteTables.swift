/// The tables. Types and STRICT are SQLite's; everything else here and nearly all statements elsewhere are SQL that
/// PostgreSQL reads the same way. Times are milliseconds since 1970.
enum SQLiteTables {
    /// The statements that lead from each version to the next; the first make version 1 from nothing. What is
    /// published here never changes: a file in the field was made by it.
    static let steps = [version1, version2, version3]

    /// Counted up with every change of a table.
    static let version = steps.count

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
}
