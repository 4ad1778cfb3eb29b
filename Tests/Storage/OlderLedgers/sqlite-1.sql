-- The tables of schema version 1, with the statements of commit cc9fd111, and no content.
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
