import Ledger

extension PostgreSQLTables {
    /// The data that several hosts share: the nodes that have each key, the holds, the fence after a restore, and the
    /// server on which the nodes last compared their chains with the heads that they remember.
    static let version2 = [
        // `system_identifier` and `timeline` identify the server on which all live nodes have compared their chains
        // with the heads that they remember. On any other server nothing is released. A restore or a promotion changes
        // the server's own values, but not this row, which is part of the restored or replicated data. `held_since` is
        // set while a row of `hold` is not accepted. `restore_fence`: payment tokens signed before it are permanently
        // refused if they have no claim.
        """
        ALTER TABLE ledger_state
            ADD COLUMN system_identifier text,
            ADD COLUMN timeline          bigint,
            ADD COLUMN held_since        bigint,
            ADD COLUMN restore_fence     bigint
        """,
        // `widest_window`: the widest of the node's signing-time windows in milliseconds; NULL while one is off, and
        // until it is reported. `system_identifier` and `timeline`: the server on which the node last compared its
        // chain with the head that it remembers.
        """
        ALTER TABLE node
            ADD COLUMN widest_window     bigint CHECK (widest_window >= 0),
            ADD COLUMN system_identifier text,
            ADD COLUMN timeline          bigint
        """,
        // Nodes that have found the database older than the state that their HSM token or process remembers. An
        // accepted row stays until its node has processed the acceptance.
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
        // The nodes whose HSM tokens have a key.
        """
        CREATE TABLE key_holder (
            node            text COLLATE "C" NOT NULL CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
            public_key_hash bytea  NOT NULL CHECK (octet_length(public_key_hash) = 32),
            seen_at         bigint NOT NULL,
            PRIMARY KEY (node, public_key_hash)
        )
        """,
        // Identifies this server. The timeline comes from the name of the current WAL file, since the control file
        // shows a promotion only after PostgreSQL's next checkpoint.
        """
        CREATE FUNCTION this_server(OUT system_identifier text, OUT timeline bigint) LANGUAGE sql STABLE
        SET search_path = paytokend, pg_temp AS $$
            SELECT c.system_identifier::text,
                ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::bigint
            FROM pg_control_system() AS c
        $$
        """,
        // Requires that the calling daemon still has the node's name, as its fencing number shows.
        """
        CREATE FUNCTION require_node(named text, held bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = paytokend, pg_temp AS $$
        BEGIN
            IF NOT EXISTS (SELECT FROM node WHERE name = named AND fence = held) THEN
                RAISE EXCEPTION 'the node is another daemon''s' USING ERRCODE = 'P0001';
            END IF;
        END $$
        """,
        // Sets the keys that the node's HSM tokens contain.
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
        // Puts all nodes on hold. The daemon's role may do this at any time; only an acceptance ends a hold.
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
        // The earliest permitted fence, according to the server's clock; NULL while a node's window is off or unknown.
        """
        CREATE FUNCTION earliest_fence() RETURNS bigint LANGUAGE sql STABLE SET search_path = paytokend, pg_temp AS $$
            SELECT floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint + max(widest_window)
            FROM node HAVING bool_and(widest_window IS NOT NULL)
        $$
        """,
        // Ends all holds, which must be exactly those shown to the people who decided, and sets the fence. The
        // acceptance must be recorded, and an approval that it names must have been given.
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
        // Ends an accepted hold after its node has processed the acceptance, which must also be in that node's records.
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
        // Records that the node has compared its chain, on this server, with the head that it remembers. Once all live
        // nodes have done so, this server becomes the ledger's server.
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

    /// Stores the server's identity when the schema is created or upgraded to version 2. All nodes then count as having
    /// compared their chains, on this server, with the heads that they remember. Each daemon also makes this comparison
    /// at startup.
    static let firstServer = """
        UPDATE ledger_state SET system_identifier = here.system_identifier, timeline = here.timeline
        FROM this_server() AS here WHERE ledger_state.system_identifier IS NULL
        """
}
