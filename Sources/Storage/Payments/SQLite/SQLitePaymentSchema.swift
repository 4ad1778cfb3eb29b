import GRDB

/// The tables in SQLite. Times are milliseconds since 1970.
enum SQLitePaymentSchema {
    /// One string of statements for each version. The first string creates version 1. Each further string upgrades the
    /// tables by one version. Published statements never change, because existing files were made with them.
    static let steps = [version1, version2]

    /// The current version of the tables, incremented with every change of a table.
    static let version = steps.count

    /// Creates the tables in an empty file, or upgrades older tables, in one transaction. Changes nothing if the tables
    /// have the current version.
    ///
    /// - Throws: ``PaymentStoreOpeningError``, and GRDB's errors.
    static func prepare(_ db: Database, path: String) throws {
        let tables = try String.fetchSet(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table'")
        var found = 0
        if !tables.isEmpty {
            guard tables.contains("payment_store"),
                let written = try Int.fetchOne(db, sql: "SELECT schema_version FROM payment_store"), written > 0
            else { throw PaymentStoreOpeningError.notAStore(place: path) }
            found = written
        }
        guard found <= version else {
            throw PaymentStoreOpeningError.newerSchema(place: path, found: found, known: version)
        }
        guard found < version else { return }
        try db.durably {
            for statements in steps[found...] { try db.execute(sql: statements) }
            try db.execute(sql: "UPDATE payment_store SET schema_version = ?", arguments: [version])
        }
    }

    /// The triggers protect against defects of this program and against manual changes: history can only be appended
    /// to, a payment's transaction identifier never changes once assigned, and a payment that may have been sent never
    /// returns to a state in which it may be sent.
    private static let version1 = """
        CREATE TABLE payment_store (schema_version INTEGER NOT NULL) STRICT;
        INSERT INTO payment_store VALUES (1);

        CREATE TABLE payment (
            client TEXT NOT NULL,
            token_digest BLOB NOT NULL CHECK (length(token_digest) = 32),
            purpose TEXT NOT NULL,
            request_digest BLOB NOT NULL CHECK (length(request_digest) = 32),
            order_id TEXT,
            state TEXT NOT NULL,
            attempt BLOB NOT NULL CHECK (length(attempt) = 8),
            owner TEXT NOT NULL,
            deadline INTEGER NOT NULL,
            transaction_id BLOB UNIQUE CHECK (length(transaction_id) = 32),
            merchant_identifier TEXT,
            minor_units INTEGER,
            currency TEXT,
            processor TEXT,
            reason TEXT,
            authorization_code TEXT,
            processor_reference TEXT,
            processed_at INTEGER,
            received_at INTEGER NOT NULL,
            changed_at INTEGER NOT NULL,
            PRIMARY KEY (client, token_digest)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX payment_by_state ON payment (state, received_at);
        CREATE INDEX payment_by_time ON payment (received_at);

        CREATE TABLE payment_change (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            client TEXT NOT NULL,
            token_digest BLOB NOT NULL,
            state TEXT NOT NULL,
            attempt BLOB NOT NULL,
            at INTEGER NOT NULL,
            by TEXT NOT NULL,
            reason TEXT
        ) STRICT;
        CREATE INDEX payment_change_by_payment ON payment_change (client, token_digest);

        CREATE TRIGGER payment_stays BEFORE DELETE ON payment BEGIN SELECT raise(ABORT, 'payments stay'); END;
        CREATE TRIGGER payment_name_stays BEFORE UPDATE ON payment
            WHEN old.transaction_id IS NOT NULL AND new.transaction_id IS NOT old.transaction_id
            BEGIN SELECT raise(ABORT, 'a transaction stays'); END;
        CREATE TRIGGER payment_sent_once BEFORE UPDATE ON payment
            WHEN old.state IN ('authorized', 'captured', 'declined', 'error', 'released') AND new.state <> old.state
                OR old.state = 'pending' AND new.state NOT IN ('pending', 'authorized', 'captured', 'declined', 'error')
                OR old.state = 'submitting' AND new.state IN ('received', 'decrypted', 'released', 'refused')
            BEGIN SELECT raise(ABORT, 'sent once'); END;
        CREATE TRIGGER payment_change_stays BEFORE UPDATE ON payment_change
            BEGIN SELECT raise(ABORT, 'history stays'); END;
        CREATE TRIGGER payment_change_is_kept BEFORE DELETE ON payment_change
            BEGIN SELECT raise(ABORT, 'history stays'); END;
        """

    /// Adds the account digest. Permits the removal of payments, with their history, if paytokend never released their
    /// payment tokens. The triggers refuse a removal within seven days after the last change.
    private static let version2 = """
        ALTER TABLE payment ADD COLUMN account_digest BLOB CHECK (length(account_digest) = 33);
        CREATE INDEX payment_removable ON payment (changed_at)
            WHERE state IN ('received', 'not_sent', 'refused') AND transaction_id IS NULL;

        DROP TRIGGER payment_stays;
        CREATE TRIGGER payment_stays BEFORE DELETE ON payment
            WHEN old.state NOT IN ('received', 'not_sent', 'refused') OR old.transaction_id IS NOT NULL
                OR old.changed_at >= CAST(strftime('%s', 'now') AS INTEGER) * 1000 - 604800000
            BEGIN SELECT raise(ABORT, 'payments stay'); END;
        DROP TRIGGER payment_change_is_kept;
        CREATE TRIGGER payment_change_is_kept BEFORE DELETE ON payment_change
            WHEN EXISTS (
                SELECT 1 FROM payment WHERE client = old.client AND token_digest = old.token_digest
                AND (state NOT IN ('received', 'not_sent', 'refused') OR transaction_id IS NOT NULL
                    OR changed_at >= CAST(strftime('%s', 'now') AS INTEGER) * 1000 - 604800000))
            BEGIN SELECT raise(ABORT, 'history stays'); END;
        """
}
