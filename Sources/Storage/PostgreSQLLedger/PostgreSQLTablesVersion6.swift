import Ledger

extension PostgreSQLTables {
    /// Archived beginnings of nodes' chains.
    static let version6 = [
        // `recorded` is the sequence of the record that reports the archive. The archive takes effect when an audit
        // checkpoint seals that record. In the database, the node's chain then begins at the record `last` of the
        // newest archive in effect: that record and its audit checkpoint are kept, and earlier ones are removed.
        """
        CREATE TABLE archive (
            node     text COLLATE "C" NOT NULL,
            first    bigint NOT NULL CHECK (first > 0),
            last     bigint NOT NULL CHECK (last >= first),
            hash     bytea  NOT NULL CHECK (octet_length(hash) = 32),
            digest   bytea  NOT NULL CHECK (octet_length(digest) = 32),
            size     bigint NOT NULL CHECK (size > 0),
            recorded bigint NOT NULL CHECK (recorded > last),
            PRIMARY KEY (node, last)
        )
        """,
        // The sequence of the last archived record; 0 if there is none. All earlier records may be removed.
        """
        CREATE FUNCTION archived_through(named text) RETURNS bigint LANGUAGE sql STABLE
        SET search_path = paytokend, pg_temp AS $$
            SELECT coalesce(max(a.last), 0) FROM archive AS a WHERE a.node = named
                AND EXISTS (SELECT FROM checkpoint AS c WHERE c.node = a.node AND c.sequence >= a.recorded)
        $$
        """,
        // Stores an archive that the node has recorded. All archived records must be at least 393 days old, the
        // shortest length of thirteen months. Even a program that logs in with the daemon's role can therefore not
        // remove newer records.
        """
        CREATE FUNCTION put_archive(named text, held bigint, first_record bigint, last_record bigint, last_hash bytea,
            file_digest bytea, file_size bigint, recorded_as bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = paytokend, pg_temp AS $$
        BEGIN
            PERFORM require_node(named, held);
            IF NOT EXISTS (SELECT FROM audit_record AS r WHERE r.node = named AND r.sequence = recorded_as
                    AND r.event = 'record_archive' AND r.outcome = 'ok')
                OR NOT EXISTS (SELECT FROM audit_record AS r WHERE r.node = named AND r.sequence = last_record
                    AND r.hash = last_hash AND r.time < present() - 393 * 86400000::bigint)
                OR NOT EXISTS (SELECT FROM checkpoint AS c WHERE c.node = named AND c.sequence = last_record
                    AND c.time < present() - 393 * 86400000::bigint)
                OR first_record <> (SELECT coalesce(max(a.last), 0) + 1 FROM archive AS a WHERE a.node = named) THEN
                RAISE EXCEPTION 'the record is not to be archived so' USING ERRCODE = 'P0001';
            END IF;
            INSERT INTO archive (node, first, last, hash, digest, size, recorded)
            VALUES (named, first_record, last_record, last_hash, file_digest, file_size, recorded_as);
            RETURN true;
        END $$
        """,
        // Removes some of the node's archived records, oldest first, and the audit checkpoints that precede the
        // remaining records.
        """
        CREATE FUNCTION remove_archived(named text, held bigint, most bigint) RETURNS bigint LANGUAGE plpgsql
        SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
        DECLARE
            base bigint;
            removed bigint;
        BEGIN
            PERFORM require_node(named, held);
            base := archived_through(named);
            DELETE FROM audit_record WHERE node = named AND sequence IN
                (SELECT r.sequence FROM audit_record AS r WHERE r.node = named AND r.sequence < base
                ORDER BY r.sequence LIMIT most);
            GET DIAGNOSTICS removed = ROW_COUNT;
            DELETE FROM checkpoint WHERE node = named AND sequence < least(base,
                (SELECT min(r.sequence) FROM audit_record AS r WHERE r.node = named));
            RETURN removed;
        END $$
        """,
    ]
}
