import Ledger

extension PostgreSQLTables {
    /// The renewals of certificates at Apple, with the attempts at changes there. The certificate request and the certificate
    /// are here for other nodes: the one that reaches Apple has no merchant's key.
    static let version11 = [
        """
        CREATE TABLE renewal (
            identifier              bytea  NOT NULL PRIMARY KEY CHECK (length(identifier) = 8),
            merchant_identifier     text   COLLATE "C" NOT NULL,
            key_use                 text   COLLATE "C" NOT NULL,
            algorithm               text   COLLATE "C" NOT NULL,
            public_key_hash         bytea  NOT NULL REFERENCES merchant_key (public_key_hash),
            state                   text   COLLATE "C" NOT NULL CHECK (state IN ('open', 'finished', 'abandoned')),
            certificate_id          text   COLLATE "C",
            previous_certificate_id text   COLLATE "C",
            request                 bytea,
            certificate             bytea,
            requester_uid           bigint NOT NULL,
            requester_name          text   COLLATE "C" NOT NULL,
            started_at              bigint NOT NULL,
            ended_at                bigint,
            node                    text   COLLATE "C" NOT NULL
        )
        """,
        "CREATE INDEX renewal_by_merchant ON renewal (merchant_identifier)",
        // The lock of a merchant's renewal.
        """
        CREATE UNIQUE INDEX renewal_open ON renewal (merchant_identifier, key_use, algorithm) WHERE state = 'open'
        """,
        """
        CREATE TABLE renewal_attempt (
            identifier     bytea  NOT NULL PRIMARY KEY CHECK (length(identifier) = 8),
            renewal        bytea  NOT NULL REFERENCES renewal (identifier),
            change         text   COLLATE "C" NOT NULL CHECK (change IN ('create', 'activate', 'revoke')),
            number         bigint NOT NULL CHECK (number > 0),
            target         text   COLLATE "C",
            approval       bytea,
            excluded_nodes text   COLLATE "C" NOT NULL,
            intended_at    bigint NOT NULL,
            answered_at    bigint,
            outcome        text   COLLATE "C" NOT NULL,
            code           text   COLLATE "C",
            node           text   COLLATE "C" NOT NULL,
            UNIQUE (renewal, change, number)
        )
        """,
        // An attempt's answer is stored once.
        """
        CREATE FUNCTION keep_attempt() RETURNS trigger LANGUAGE plpgsql SET search_path = paytokend, pg_temp AS $$
        BEGIN
            IF OLD.outcome NOT IN ('intended', 'unknown') THEN
                RAISE EXCEPTION 'the attempt was answered' USING ERRCODE = 'P0001';
            END IF;
            RETURN NEW;
        END $$
        """,
        """
        CREATE TRIGGER keep_attempt BEFORE UPDATE ON renewal_attempt
        FOR EACH ROW EXECUTE FUNCTION keep_attempt()
        """,
    ]
}
