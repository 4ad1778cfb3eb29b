extension SQLiteTables {
    static let version10 = [
        // The renewals of certificates at Apple, and the attempts at changes there. `certificate_id` and
        // `previous_certificate_id` are Apple's. The certificate request and the certificate are here for other nodes:
        // the one that reaches Apple has no merchant's key.
        """
        CREATE TABLE renewal (
            identifier              BLOB    NOT NULL PRIMARY KEY CHECK (length(identifier) = 8),
            merchant_identifier     TEXT    NOT NULL,
            key_use                 TEXT    NOT NULL,
            algorithm               TEXT    NOT NULL,
            public_key_hash         BLOB    NOT NULL REFERENCES merchant_key (public_key_hash),
            state                   TEXT    NOT NULL CHECK (state IN ('open', 'finished', 'abandoned')),
            certificate_id          TEXT,
            previous_certificate_id TEXT,
            request                 BLOB,
            certificate             BLOB,
            requester_uid           INTEGER NOT NULL,
            requester_name          TEXT    NOT NULL,
            started_at              INTEGER NOT NULL,
            ended_at                INTEGER,
            node                    TEXT    NOT NULL
        ) STRICT
        """,
        "CREATE INDEX renewal_by_merchant ON renewal (merchant_identifier)",
        // The lock of a merchant's renewal.
        """
        CREATE UNIQUE INDEX renewal_open ON renewal (merchant_identifier, key_use, algorithm) WHERE state = 'open'
        """,
        """
        CREATE TABLE renewal_attempt (
            identifier     BLOB    NOT NULL PRIMARY KEY CHECK (length(identifier) = 8),
            renewal        BLOB    NOT NULL REFERENCES renewal (identifier),
            change         TEXT    NOT NULL CHECK (change IN ('create', 'activate', 'revoke')),
            number         INTEGER NOT NULL CHECK (number > 0),
            target         TEXT,
            approval       BLOB,
            excluded_nodes TEXT    NOT NULL,
            intended_at    INTEGER NOT NULL,
            answered_at    INTEGER,
            outcome        TEXT    NOT NULL,
            code           TEXT,
            node           TEXT    NOT NULL,
            UNIQUE (renewal, change, number)
        ) STRICT
        """,
        // An attempt's answer is stored once.
        """
        CREATE TRIGGER keep_attempt BEFORE UPDATE ON renewal_attempt
        WHEN OLD.outcome NOT IN ('intended', 'unknown')
        BEGIN
            SELECT RAISE(ABORT, 'the attempt was answered');
        END
        """,
    ]
}
