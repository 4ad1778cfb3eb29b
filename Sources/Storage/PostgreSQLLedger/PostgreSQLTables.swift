import Ledger

/// The tables of a ledger. All are in the schema `paytokend`, which belongs to the account that ran `ledger create`.
/// Times are milliseconds since 1970, except for the nodes' leases, which depend only on the server's clock.
package enum PostgreSQLTables {
    package static let schema = "paytokend"

    /// The statements that lead from each version to the next; the first list creates version 1. Published statements
    /// never change, since existing databases were made with them. If a later step replaces a function, only its last
    /// definition is kept (`prune_claims`, `limit_forgotten`).
    static let steps = [
        version1, version2 + following + guards, version3, version4, version5, version6, version7, version8,
        version9, version10, version11, googlePayClaims,
    ]

    /// The current version, which rises with every change of a table.
    static let version = steps.count

    private static let version1 = [
        // A single row with the state that must not change during a batch. Every batch locks it FOR SHARE. PostgreSQL
        // requires the UPDATE privilege on a column for that lock, and `guard` exists only for this.
        // `forgotten_before`: claims of payment tokens signed before this time may be gone.
        """
        CREATE TABLE ledger_state (
            only_row         boolean  NOT NULL DEFAULT true PRIMARY KEY CHECK (only_row),
            schema_version   bigint   NOT NULL,
            forgotten_before bigint,
            guard            smallint NOT NULL DEFAULT 0
        )
        """,
        // One row for each node, which each of its batches locks and changes. `last_batch` identifies the last
        // committed batch, so that a commit with a lost acknowledgement can be found. Each daemon increments `fence`
        // when it takes the name.
        """
        CREATE TABLE node (
            name                 text COLLATE "C" NOT NULL PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9._-]{1,64}$'),
            fence                bigint      NOT NULL,
            lease_until          timestamptz NOT NULL,
            seen_at              timestamptz NOT NULL,
            version              text        NOT NULL,
            last_batch           bytea       CHECK (octet_length(last_batch) = 16),
            signed_ahead         bigint      NOT NULL DEFAULT 0,
            clock_accepted_after bigint      NOT NULL DEFAULT 0
        ) WITH (fillfactor = 10)
        """,
        // The merchant keys. A key's state determines whether the key may be used.
        """
        CREATE TABLE merchant_key (
            public_key_hash     bytea  NOT NULL PRIMARY KEY CHECK (octet_length(public_key_hash) = 32),
            merchant_identifier text   NOT NULL,
            algorithm           text   NOT NULL,
            state               text   NOT NULL,
            cut_off             bigint,
            origin              text   NOT NULL,
            created_at          bigint NOT NULL,
            node                text COLLATE "C" NOT NULL
        )
        """,
        // The released transactions and their callers. There is no foreign key to merchant_key, since the inserting
        // statement reads the key's row under a lock, and keys are never deleted.
        """
        CREATE TABLE claim (
            transaction_id   bytea  NOT NULL PRIMARY KEY CHECK (octet_length(transaction_id) = 32),
            public_key_hash  bytea  NOT NULL,
            caller           text   NOT NULL,
            reference_digest bytea,
            content_digest   bytea  NOT NULL,
            attempt          bytea  NOT NULL,
            claimed_at       bigint NOT NULL,
            repeats          bigint NOT NULL DEFAULT 0,
            repeat_attempt   bytea,
            repeated_at      bigint,
            node             text COLLATE "C" NOT NULL
        )
        """,
        "CREATE INDEX claim_by_age ON claim (claimed_at)",
        // The chains of records. The column `line` is authoritative. The other columns repeat some members of the line, for
        // searching.
        """
        CREATE TABLE audit_record (
            node            text COLLATE "C" NOT NULL,
            sequence        bigint NOT NULL CHECK (sequence > 0),
            time            bigint NOT NULL,
            event           text   NOT NULL,
            outcome         text   NOT NULL,
            caller          text,
            caller_uid      bigint,
            merchant        text,
            public_key_hash bytea,
            transaction_id  bytea,
            hash            bytea  NOT NULL CHECK (octet_length(hash) = 32),
            line            bytea  NOT NULL,
            PRIMARY KEY (node, sequence)
        )
        """,
        "CREATE INDEX audit_record_by_time ON audit_record (node, time, sequence)",
        "CREATE INDEX audit_record_by_outcome ON audit_record (outcome, node, sequence) WHERE outcome <> 'ok'",
        """
        CREATE INDEX audit_record_by_transaction ON audit_record (transaction_id, node, sequence)
        WHERE transaction_id IS NOT NULL
        """,
        """
        CREATE TABLE checkpoint (
            node     text COLLATE "C" NOT NULL,
            sequence bigint NOT NULL,
            time     bigint NOT NULL,
            line     bytea  NOT NULL,
            PRIMARY KEY (node, sequence)
        )
        """,
        // The keys that sign audit checkpoints. A row is inserted when its key is planned. `public_key` is set once the
        // HSM token contains the key.
        """
        CREATE TABLE audit_key (
            node       text COLLATE "C" NOT NULL,
            ordinal    bigint NOT NULL CHECK (ordinal > 0),
            identifier bytea  NOT NULL CHECK (octet_length(identifier) = 16),
            public_key bytea  CHECK (octet_length(public_key) = 65),
            planned_at bigint NOT NULL,
            PRIMARY KEY (node, ordinal),
            UNIQUE (node, identifier)
        )
        """,
        // Operations that need, or have received, a second person's approval.
        """
        CREATE TABLE approval (
            identifier       bytea  NOT NULL PRIMARY KEY,
            operation        text   NOT NULL,
            parameters       bytea  NOT NULL CHECK (octet_length(parameters) = 32),
            public_key_hash  bytea  CHECK (octet_length(public_key_hash) = 32),
            key_state        text,
            requester        bigint NOT NULL,
            requester_name   text   NOT NULL,
            requester_uid    bigint NOT NULL,
            requester_gid    bigint NOT NULL,
            requester_groups text   NOT NULL,
            reason           text   NOT NULL,
            requested_at     bigint NOT NULL,
            expires_at       bigint NOT NULL,
            status           text   NOT NULL,
            decided_by       bigint,
            decided_at       bigint,
            node             text COLLATE "C" NOT NULL
        )
        """,
        "CREATE INDEX approval_by_expiry ON approval (status, expires_at)",
        // The server's time, which determines the claims to prune.
        """
        CREATE FUNCTION present() RETURNS bigint LANGUAGE sql VOLATILE SET search_path = paytokend, pg_temp AS $$
            SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
        $$
        """,
        // Waits for current batches and makes later ones wait, in the order of their arrival. Row locks alone, which
        // batches share, would let new batches overtake a waiting change indefinitely. The tables are locked in the
        // order in which batches lock them.
        """
        CREATE FUNCTION exclude_releases() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = paytokend, pg_temp AS $$
        BEGIN
            LOCK TABLE ledger_state IN EXCLUSIVE MODE;
            LOCK TABLE merchant_key IN EXCLUSIVE MODE;
        END $$
        """,
        // Removes ended approvals whose time to decide passed before `expired`. Of the other ended approvals, it keeps
        // only the `most` newest.
        """
        CREATE FUNCTION forget_approvals(expired bigint, most bigint) RETURNS bigint LANGUAGE plpgsql
        SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
        DECLARE
            old bigint;
            beyond bigint;
        BEGIN
            DELETE FROM approval
            WHERE status IN ('done', 'rejected', 'withdrawn', 'expired') AND expires_at < expired;
            GET DIAGNOSTICS old = ROW_COUNT;
            DELETE FROM approval WHERE identifier IN (
                SELECT identifier FROM approval WHERE status IN ('done', 'rejected', 'withdrawn', 'expired')
                ORDER BY requested_at DESC, identifier DESC OFFSET greatest(most, 0));
            GET DIAGNOSTICS beyond = ROW_COUNT;
            RETURN old + beyond;
        END $$
        """,
    ]
}
