import PostgreSQLClient

extension PostgreSQLTables {
    /// What moving a host's file into the database needs (`paytokenctl ledger move`).
    static let version3 = [
        // By which a file that was moved tells this ledger from others, whatever its server is called and whichever server of a
        // cluster it is. A copy of the database is the same ledger.
        "ALTER TABLE ledger_state ADD COLUMN identity text NOT NULL DEFAULT gen_random_uuid()::text",
        // The nodes whose files were moved in, or are being. Until `accepted_at` the file serves, and nobody else under its
        // node's name. `run` is counted up by each program that works at it: what an earlier one sends late changes nothing.
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
        // A daemon that takes the name of a node whose file has not been accepted would find its record behind what its HSM token
        // remembers, and hold all others.
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
