-- The tables of schema version 2, with the statements of commit d9e3fb41, and no content.
CREATE TABLE ledger_meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
CREATE TABLE merchant_key (
    public_key_hash     BLOB    NOT NULL PRIMARY KEY CHECK (length(public_key_hash) = 32),
    merchant_identifier TEXT    NOT NULL,
    algorithm           TEXT    NOT NULL,
    state               TEXT    NOT NULL,
    cut_off             INTEGER,
    origin              TEXT    NOT NULL,
    created_at          INTEGER NOT NULL,
    node                TEXT    NOT NULL
) STRICT;
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
) STRICT, WITHOUT ROWID;
CREATE INDEX claim_by_age ON claim (claimed_at);
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
) STRICT;
CREATE UNIQUE INDEX audit_record_by_sequence ON audit_record (node, sequence);
CREATE INDEX audit_record_by_time ON audit_record (node, time, sequence);
CREATE INDEX audit_record_by_outcome ON audit_record (outcome, node, sequence) WHERE outcome <> 'ok';
CREATE INDEX audit_record_by_caller ON audit_record (caller, node, sequence) WHERE caller IS NOT NULL;
CREATE INDEX audit_record_by_merchant ON audit_record (merchant, node, sequence) WHERE merchant IS NOT NULL;
CREATE INDEX audit_record_by_key ON audit_record (public_key_hash, node, sequence)
WHERE public_key_hash IS NOT NULL;
CREATE INDEX audit_record_by_transaction ON audit_record (transaction_id, node, sequence)
WHERE transaction_id IS NOT NULL;
CREATE TABLE checkpoint (
    node     TEXT    NOT NULL,
    sequence INTEGER NOT NULL,
    time     INTEGER NOT NULL,
    line     BLOB    NOT NULL,
    PRIMARY KEY (node, sequence)
) STRICT;
CREATE TABLE audit_key (
    node       TEXT    NOT NULL,
    ordinal    INTEGER NOT NULL CHECK (ordinal > 0),
    identifier BLOB    NOT NULL CHECK (length(identifier) = 16),
    public_key BLOB    CHECK (length(public_key) = 65),
    planned_at INTEGER NOT NULL,
    PRIMARY KEY (node, ordinal),
    UNIQUE (node, identifier)
) STRICT;
