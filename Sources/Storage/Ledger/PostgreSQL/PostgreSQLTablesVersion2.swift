extension PostgreSQLTables {
    /// What several hosts need of each other: whose HSM tokens hold a key, which server the ledger was last compared on, whether
    /// a node has found the database behind what it remembers, and from when on payment tokens are served after a restore.
    static let version2 = [
        // `system_identifier` and `timeline`: the server on which all live nodes have compared. On another one nothing is
        // released: a restore and a promotion change them, and the row that came along does not know it. `held_since`: some row
        // of `hold` is not accepted. `restore_fence`: payment tokens that were signed before it are refused where no claim is
        // found, for good.
        """
        ALTER TABLE ledger_state
            ADD COLUMN system_identifier text,
            ADD COLUMN timeline          bigint,
            ADD COLUMN held_since        bigint,
            ADD COLUMN restore_fence     bigint
        """,
        // `widest_window`: of the node's signing-time windows, in milliseconds; NULL while one is off, and before it is told.
        // `system_identifier` and `timeline`: the server on which the node has last compared.
        """
        ALTER TABLE node
            ADD COLUMN widest_window     bigint CHECK (widest_window >= 0),
            ADD COLUMN system_identifier text,
            ADD COLUMN timeline          bigint
        """,
        // Nodes that have found the database behind what their HSM token or their process remembers. An accepted row stays until
        // its node has taken it up.
        """
        CREATE TABLE hold (
            node                text COLLATE "C" NOT NULL PRIMARY KEY CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
            kind                text   NOT NULL CHECK (kind IN ('lost', 'rolled_back', 'forked')),
            ledger_sequence     bigint NOT NULL CHECK (ledger_sequence >= 0),
            remembered_sequence bigint CHECK (remembered_sequence > 0),
            remembered_hash     bytea  CHECK (octet_length(remembered_hash) = 32),
            remembered_at       bigint,
            key_id              bytea  CHECK (octet_length(key_id) = 32),
            found_at            bigint NOT NULL,
            accepted_at         bigint,
            accepted_on         text COLLATE "C"
        )
        """,
        // Whose HSM tokens hold a key.
        """
        CREATE TABLE key_holder (
            node            text COLLATE "C" NOT NULL CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
            public_key_hash bytea  NOT NULL CHECK (octet_length(public_key_hash) = 32),
            seen_at         bigint NOT NULL,
            PRIMARY KEY (node, public_key_hash)
        )
        """,
        // This server. The timeline is that of the log's file: the control file tells of a promotion only after the next
        // checkpoint.
        """
        CREATE FUNCTION this_server(OUT system_identifier text, OUT timeline bigint) LANGUAGE sql STABLE
        SET search_path = paytokend, pg_temp AS $$
            SELECT c.system_identifier::text,
                ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::bigint
            FROM pg_control_system() AS c
        $$
        """,
        // The caller's own node, by the fencing number that its daemon holds.
        """
        CREATE FUNCTION require_node(named text, held bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = paytokend, pg_temp AS $$
        BEGIN
            IF NOT EXISTS (SELECT FROM node WHERE name = named AND fence = held) THEN
                RAISE EXCEPTION 'the node is another daemon''s' USING ERRCODE = 'P0001';
            END IF;
        END $$
        """,
        // The node's HSM tokens hold these keys and no others.
        """
        CREATE FUNCTION note_key_holder(named text, held bigint, hashes bytea[]) RETURNS void LANGUAGE plpgsql
        SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
        BEGIN
            PERFORM require_node(named, held);
            DELETE FROM key_holder WHERE node = named AND public_key_hash <> ALL (hashes);
            INSERT INTO key_holder (node, public_key_hash, seen_at)
            SELECT DISTINCT named, h, present() FROM unnest(hashes) AS h
            ON CONFLICT (node, public_key_hash) DO UPDATE SET seen_at = excluded.seen_at;
        END $$
        """,
        // Nothing is released any more, on any node. Whoever holds the role may say so; only an acceptance ends it.
        """
        CREATE FUNCTION put_hold(named text, finding text, ends_with bigint, remembered bigint, hash bytea, moment bigint,
            key bytea) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
        BEGIN
            PERFORM exclude_releases();
            INSERT INTO hold (node, kind, ledger_sequence, remembered_sequence, remembered_hash, remembered_at, key_id,
                found_at)
            VALUES (named, finding, ends_with, remembered, hash, moment, key, present())
            ON CONFLICT (node) DO UPDATE SET kind = excluded.kind, ledger_sequence = excluded.ledger_sequence,
                remembered_sequence = excluded.remembered_sequence, remembered_hash = excluded.remembered_hash,
                remembered_at = excluded.remembered_at, key_id = excluded.key_id, found_at = excluded.found_at,
                accepted_at = NULL, accepted_on = NULL;
            UPDATE ledger_state SET held_since = coalesce(held_since, present());
        END $$
        """,
        // When a fence may stand at the earliest, by the server's clock; NULL while some node's window is off or not known.
        """
        CREATE FUNCTION earliest_fence() RETURNS bigint LANGUAGE sql STABLE SET search_path = paytokend, pg_temp AS $$
            SELECT floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint + max(widest_window)
            FROM node HAVING bool_and(widest_window IS NOT NULL)
        $$
        """,
        // Ends all holds, which must be just those that the people who decided were shown, and sets the fence. The acceptance
        // must stand in the record, and an approval that it names must have been given.
        """
        CREATE FUNCTION accept_restore(named text, held bigint, recorded bigint, approved bytea, served_from bigint,
            nodes text[], times bigint[]) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = paytokend, pg_temp AS $$
        DECLARE
            earliest bigint;
        BEGIN
            PERFORM require_node(named, held);
            PERFORM exclude_releases();
            earliest := earliest_fence();
            IF NOT EXISTS (SELECT FROM audit_record AS r WHERE r.node = named AND r.sequence = recorded
                    AND r.event = 'ledger_accept_restore' AND r.outcome = 'ok')
                OR (approved IS NOT NULL AND NOT EXISTS (SELECT FROM approval WHERE identifier = approved
                    AND operation = 'ledger_accept_restore' AND status = 'done' AND decided_by IS NOT NULL))
                OR earliest IS NULL OR served_from IS NULL OR served_from < earliest THEN
                RAISE EXCEPTION 'the restored ledger is not to be accepted so' USING ERRCODE = 'P0001';
            END IF;
            IF (SELECT coalesce(array_agg(h.node || ' ' || h.found_at ORDER BY h.node), '{}') FROM hold AS h
                    WHERE h.accepted_at IS NULL)
                <> (SELECT coalesce(array_agg(n || ' ' || f ORDER BY n COLLATE "C"), '{}')
                    FROM unnest(nodes, times) AS shown (n, f)) THEN
                RETURN false;
            END IF;
            UPDATE hold SET accepted_at = present(), accepted_on = named WHERE accepted_at IS NULL;
            DELETE FROM hold WHERE node = named;
            UPDATE ledger_state SET held_since = NULL, restore_fence = greatest(restore_fence, served_from);
            RETURN true;
        END $$
        """,
        // A node has taken up what was accepted, which must stand in its record too.
        """
        CREATE FUNCTION end_hold(named text, held bigint, recorded bigint) RETURNS boolean LANGUAGE plpgsql
        SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
        BEGIN
            PERFORM require_node(named, held);
            IF NOT EXISTS (SELECT FROM audit_record AS r WHERE r.node = named AND r.sequence = recorded
                    AND r.event = 'ledger_accept_restore' AND r.outcome = 'ok') THEN
                RAISE EXCEPTION 'the restored ledger is not to be taken up so' USING ERRCODE = 'P0001';
            END IF;
            DELETE FROM hold WHERE node = named AND accepted_at IS NOT NULL;
            RETURN FOUND;
        END $$
        """,
        // The node has compared on this server. Once all live ones have, it is the ledger's.
        """
        CREATE FUNCTION compare_server(named text, held bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = paytokend, pg_temp AS $$
        DECLARE
            here record;
        BEGIN
            PERFORM require_node(named, held);
            SELECT * INTO here FROM this_server();
            UPDATE node SET system_identifier = here.system_identifier, timeline = here.timeline WHERE name = named;
            IF EXISTS (SELECT FROM ledger_state AS s WHERE s.system_identifier = here.system_identifier
                    AND s.timeline = here.timeline) THEN
                RETURN true;
            END IF;
            IF EXISTS (SELECT FROM node AS n WHERE n.name <> named AND n.lease_until >= clock_timestamp()
                    AND (n.system_identifier, n.timeline) IS DISTINCT FROM (here.system_identifier, here.timeline)) THEN
                RETURN false;
            END IF;
            PERFORM exclude_releases();
            UPDATE ledger_state SET system_identifier = here.system_identifier, timeline = here.timeline;
            RETURN true;
        END $$
        """,
    ]

    /// The server on which the schema was made, or brought to version 2, is the first that counts as compared: each daemon
    /// compares at its start all the same.
    static let firstServer = """
        UPDATE ledger_state SET system_identifier = here.system_identifier, timeline = here.timeline
        FROM this_server() AS here WHERE ledger_state.system_identifier IS NULL
        """
}
