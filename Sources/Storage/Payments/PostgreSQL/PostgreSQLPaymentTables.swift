/// The tables of payments. All are in the schema `paytoken_gateway`, which belongs to the account that ran
/// `paytoken-gateway store create`. Times are milliseconds since 1970, according to the gateways' clocks.
enum PostgreSQLPaymentTables {
    static let schema = "paytoken_gateway"

    /// One list of statements for each version. The first list creates version 1. Each further list upgrades a store by
    /// one version. Published statements never change, because existing databases were made with them.
    static let steps = [version1, version2]

    private static let version1 = [
        """
        CREATE TABLE payment_store (
            only_row       boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (only_row),
            schema_version bigint  NOT NULL
        )
        """,
        """
        CREATE TABLE payment (
            client              text COLLATE "C" NOT NULL,
            token_digest        bytea  NOT NULL CHECK (octet_length(token_digest) = 32),
            purpose             text   NOT NULL,
            request_digest      bytea  NOT NULL CHECK (octet_length(request_digest) = 32),
            order_id            text,
            state               text   NOT NULL,
            attempt             bytea  NOT NULL CHECK (octet_length(attempt) = 8),
            owner               text   NOT NULL,
            deadline            bigint NOT NULL,
            transaction_id      bytea  UNIQUE CHECK (octet_length(transaction_id) = 32),
            merchant_identifier text,
            minor_units         bigint,
            currency            text,
            processor           text,
            reason              text,
            authorization_code  text,
            processor_reference text,
            processed_at        bigint,
            received_at         bigint NOT NULL,
            changed_at          bigint NOT NULL,
            PRIMARY KEY (client, token_digest)
        )
        """,
        "CREATE INDEX payment_by_state ON payment (state, received_at)",
        "CREATE INDEX payment_by_time ON payment (received_at)",
        """
        CREATE TABLE payment_change (
            number       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            client       text COLLATE "C" NOT NULL,
            token_digest bytea  NOT NULL,
            state        text   NOT NULL,
            attempt      bytea  NOT NULL,
            at           bigint NOT NULL,
            by           text   NOT NULL,
            reason       text
        )
        """,
        "CREATE INDEX payment_change_by_payment ON payment_change (client, token_digest)",
        // Rules that no gateway's login can bypass: a payment's name never changes once assigned, and a payment that
        // may have been sent never returns to a state in which it may be sent.
        """
        CREATE FUNCTION keep_payment() RETURNS trigger LANGUAGE plpgsql SET search_path = paytoken_gateway, pg_temp AS $$
        BEGIN
            IF OLD.transaction_id IS NOT NULL AND NEW.transaction_id IS DISTINCT FROM OLD.transaction_id THEN
                RAISE EXCEPTION 'a transaction stays' USING ERRCODE = 'P0001';
            END IF;
            IF (OLD.state IN ('authorized', 'captured', 'declined', 'error', 'released') AND NEW.state <> OLD.state)
                OR (OLD.state = 'pending' AND NEW.state NOT IN ('pending', 'authorized', 'captured', 'declined', 'error'))
                OR (OLD.state = 'submitting' AND NEW.state IN ('received', 'decrypted', 'released', 'refused')) THEN
                RAISE EXCEPTION 'sent once' USING ERRCODE = 'P0001';
            END IF;
            RETURN NEW;
        END $$
        """,
        "CREATE TRIGGER keep_payment BEFORE UPDATE ON payment FOR EACH ROW EXECUTE FUNCTION keep_payment()",
        """
        CREATE FUNCTION keep_rows() RETURNS trigger LANGUAGE plpgsql SET search_path = paytoken_gateway, pg_temp AS $$
        BEGIN
            RAISE EXCEPTION 'rows stay' USING ERRCODE = 'P0001';
        END $$
        """,
        """
        CREATE TRIGGER keep_rows BEFORE DELETE OR TRUNCATE ON payment
        FOR EACH STATEMENT EXECUTE FUNCTION keep_rows()
        """,
        """
        CREATE TRIGGER keep_rows BEFORE UPDATE OR DELETE OR TRUNCATE ON payment_change
        FOR EACH STATEMENT EXECUTE FUNCTION keep_rows()
        """,
    ]

    /// Adds the account digest, and permits the removal of payments that paytokend never released. They can be removed,
    /// with their history, seven days after their last change by the server's clock. A gateway's role can remove them
    /// only with `prune_payments`.
    private static let version2 = [
        "ALTER TABLE payment ADD COLUMN account_digest bytea CHECK (octet_length(account_digest) = 33)",
        "DROP INDEX payment_change_by_payment",
        "CREATE INDEX payment_change_by_payment ON payment_change (client, token_digest, number)",
        """
        CREATE INDEX payment_removable ON payment (changed_at)
        WHERE state IN ('received', 'not_sent', 'refused') AND transaction_id IS NULL
        """,
        """
        CREATE FUNCTION removable_before() RETURNS bigint LANGUAGE sql STABLE
        SET search_path = paytoken_gateway, pg_temp AS $$
            SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint - 604800000
        $$
        """,
        """
        CREATE FUNCTION keep_deleted_payment() RETURNS trigger LANGUAGE plpgsql
        SET search_path = paytoken_gateway, pg_temp AS $$
        BEGIN
            IF OLD.state NOT IN ('received', 'not_sent', 'refused') OR OLD.transaction_id IS NOT NULL
                OR OLD.changed_at >= removable_before() THEN
                RAISE EXCEPTION 'payments stay' USING ERRCODE = 'P0001';
            END IF;
            RETURN OLD;
        END $$
        """,
        """
        CREATE FUNCTION keep_deleted_change() RETURNS trigger LANGUAGE plpgsql
        SET search_path = paytoken_gateway, pg_temp AS $$
        BEGIN
            IF EXISTS (
                SELECT FROM payment WHERE client = OLD.client AND token_digest = OLD.token_digest
                AND (state NOT IN ('received', 'not_sent', 'refused') OR transaction_id IS NOT NULL
                    OR changed_at >= removable_before())
            ) THEN
                RAISE EXCEPTION 'history stays' USING ERRCODE = 'P0001';
            END IF;
            RETURN OLD;
        END $$
        """,
        "DROP TRIGGER keep_rows ON payment",
        "DROP TRIGGER keep_rows ON payment_change",
        "CREATE TRIGGER keep_rows BEFORE TRUNCATE ON payment FOR EACH STATEMENT EXECUTE FUNCTION keep_rows()",
        """
        CREATE TRIGGER keep_rows BEFORE UPDATE OR TRUNCATE ON payment_change
        FOR EACH STATEMENT EXECUTE FUNCTION keep_rows()
        """,
        """
        CREATE TRIGGER keep_deleted_payment BEFORE DELETE ON payment
        FOR EACH ROW EXECUTE FUNCTION keep_deleted_payment()
        """,
        """
        CREATE TRIGGER keep_deleted_change BEFORE DELETE ON payment_change
        FOR EACH ROW EXECUTE FUNCTION keep_deleted_change()
        """,
        // Removes the oldest `most` removable payments, at most a thousand, with their history. Payments that another
        // gateway is removing are skipped. One call removes at most 3 × `most` rows, payments and history lines
        // together. A longer history is therefore removed in several calls, and its payment in the last one.
        """
        CREATE FUNCTION prune_payments(most bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = paytoken_gateway, pg_temp AS $$
        DECLARE
            removable record;
            remaining bigint := 3 * least(greatest(most, 0), 1000);
            gone bigint;
            removed bigint := 0;
        BEGIN
            FOR removable IN
                SELECT client, token_digest FROM payment
                WHERE state IN ('received', 'not_sent', 'refused') AND transaction_id IS NULL AND changed_at < removable_before()
                ORDER BY changed_at LIMIT least(greatest(most, 0), 1000) FOR UPDATE SKIP LOCKED
            LOOP
                -- The oldest first, so that what is left of a history is its end; only the index by payment and number has this order.
                DELETE FROM payment_change WHERE number IN (
                    SELECT number FROM payment_change WHERE client = removable.client
                    AND token_digest BETWEEN removable.token_digest AND removable.token_digest
                    ORDER BY token_digest, number LIMIT remaining);
                GET DIAGNOSTICS gone = ROW_COUNT;
                remaining := remaining - gone;
                EXIT WHEN remaining <= 0;
                DELETE FROM payment WHERE client = removable.client AND token_digest = removable.token_digest;
                remaining := remaining - 1;
                removed := removed + 1;
            END LOOP;
            RETURN removed;
        END $$
        """,
    ]
}
