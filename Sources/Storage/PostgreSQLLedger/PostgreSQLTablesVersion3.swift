import Ledger
import PostgreSQLClient

extension PostgreSQLTables {
    /// Support for moving a host's file into the database (`paytokenctl ledger move`).
    static let version3 = [
        // The identity by which a moved file recognises this ledger, even if the server's name changes or a standby is
        // promoted. A copy of the database has the same identity.
        "ALTER TABLE ledger_state ADD COLUMN identity text NOT NULL DEFAULT gen_random_uuid()::text",
        // The nodes whose files were moved here or are being moved. Until `accepted_at` is set, only a daemon with the
        // file may use the node's name. Each run of the move increments `run`, so that late statements of an earlier
        // run change nothing.
        """
        CREATE TABLE moved_ledger (
            node          text COLLATE "C" NOT NULL PRIMARY KEY CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
            run           bigint NOT NULL,
            begun_at      bigint NOT NULL,
            accepted_at   bigint,
            last_sequence bigint CHECK (last_sequence >= 0),
            last_hash     bytea  CHECK (octet_length(last_hash) = 32)
        )
        """,
        // Refuses the name of a node whose file is not accepted yet. A daemon with that name would find that the
        // database lacks records that its HSM token remembers, and would put all nodes on hold.
        """
        CREATE FUNCTION keep_moving_node_out() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = paytokend, pg_temp AS $$
        BEGIN
            IF EXISTS (SELECT FROM moved_ledger WHERE node = NEW.name AND accepted_at IS NULL) THEN
                RAISE EXCEPTION 'the node is being moved' USING ERRCODE = '\(SQLState.nodeIsMoving.code)';
            END IF;
            RETURN NEW;
        END $$
        """,
        """
        CREATE TRIGGER keep_moving_out BEFORE INSERT OR UPDATE OF fence ON node
        FOR EACH ROW EXECUTE FUNCTION keep_moving_node_out()
        """,
    ]
}
