extension PostgreSQLTables {
    /// Persons of several hosts, and limits on forgetting that do not depend on the server's clock being right.
    static let version7 = [
        // The names of the accounts of `requester_uid` and `requester` on the node where it was asked for. NULL where there was none,
        // and in requests that are older than this.
        "ALTER TABLE approval ADD COLUMN requester_account text, ADD COLUMN requester_login_account text",
        // By how much a released payment token's signing time was ahead of its claim, at most. Up to 30 seconds no node notes it.
        """
        CREATE FUNCTION signing_lead() RETURNS bigint LANGUAGE sql STABLE SET search_path = paytokend, pg_temp AS $$
            SELECT greatest(30000, max(signed_ahead)) FROM node
        $$
        """,
        // The widest signing-time window that a node has told; half of the shortest `retain_claims` at least. The daemon's role can
        // tell less, so nothing depends on it but what is served: no claim's safety.
        """
        CREATE FUNCTION widest_known_window() RETURNS bigint LANGUAGE sql STABLE
        SET search_path = paytokend, pg_temp AS $$
            SELECT greatest(30000, max(widest_window)) FROM node
        $$
        """,
        // The first bounds which claims may be pruned, so the daemon's role cannot make it smaller.
        """
        CREATE FUNCTION keep_signed_ahead() RETURNS trigger LANGUAGE plpgsql SET search_path = paytokend, pg_temp AS $$
        BEGIN
            RAISE EXCEPTION 'what was released stays' USING ERRCODE = 'P0001';
        END $$
        """,
        """
        CREATE TRIGGER keep_signed_ahead BEFORE UPDATE ON node
        FOR EACH ROW WHEN (NEW.signed_ahead < OLD.signed_ahead) EXECUTE FUNCTION keep_signed_ahead()
        """,
        // Removes claims made before `horizon`, and remembers that payment tokens signed before `signed` may have had one.
        //
        // A removed claim's token was signed less than the lead after the claim, so before `signed`: from this commit on it is refused
        // by its signing time, which Apple wrote, whatever the server's clock says. And `signed` is so old that no window admits
        // what was signed before it.
        """
        CREATE OR REPLACE FUNCTION prune_claims(horizon bigint, signed bigint, most bigint) RETURNS bigint
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
        DECLARE
            removed bigint;
        BEGIN
            PERFORM exclude_releases();
            IF horizon IS NULL OR signed IS NULL OR signed < horizon + signing_lead()
                OR signed > present() - widest_known_window() THEN
                RAISE EXCEPTION 'claims are not to be forgotten yet' USING ERRCODE = 'P0001';
            END IF;
            DELETE FROM claim WHERE transaction_id IN
                (SELECT transaction_id FROM claim WHERE claimed_at < horizon ORDER BY claimed_at LIMIT most);
            GET DIAGNOSTICS removed = ROW_COUNT;
            IF removed > 0 THEN
                UPDATE ledger_state SET forgotten_before = greatest(forgotten_before, signed);
            END IF;
            RETURN removed;
        END $$
        """,
        // From when on payment tokens may be served again although what a wrong clock had forgotten is taken back. What was pruned
        // was signed before its pruning; the window and the lead allow for a server's clock that was ahead then, or is behind now.
        """
        CREATE FUNCTION earliest_served() RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER
        SET search_path = paytokend, pg_temp AS $$
            SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
                + greatest(signing_lead(), widest_known_window())
        $$
        """,
        // What a wrong clock had forgotten is taken back, false when it is not `expected` any more; but never for payment tokens that
        // are signed before `earliest_served()`, by the clock at this moment: not at the beginning of a transaction that somebody
        // has kept open meanwhile.
        """
        CREATE OR REPLACE FUNCTION limit_forgotten(expected bigint, served_from bigint) RETURNS boolean LANGUAGE plpgsql
        SECURITY DEFINER SET search_path = paytokend, pg_temp AS $$
        BEGIN
            PERFORM exclude_releases();
            IF served_from < expected AND served_from < earliest_served() THEN
                RAISE EXCEPTION 'payment tokens of the past are not served again' USING ERRCODE = 'P0001';
            END IF;
            UPDATE ledger_state SET forgotten_before = least(forgotten_before, served_from)
            WHERE forgotten_before IS NOT DISTINCT FROM expected;
            RETURN FOUND;
        END $$
        """,
        // The time that a daemon's transaction may take from its beginning to the acceptance of a restore.
        """
        CREATE FUNCTION acceptance_time() RETURNS bigint LANGUAGE sql IMMUTABLE SET search_path = paytokend, pg_temp AS $$
            SELECT 30000::bigint
        $$
        """,
        // The earliest fence of a restore, by the server's clock; NULL while some node's window is off or not known. It counts from
        // the beginning of the transaction, but one that was kept open for longer gains nothing by that.
        """
        CREATE OR REPLACE FUNCTION earliest_fence() RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER
        SET search_path = paytokend, pg_temp AS $$
            SELECT greatest(floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint,
                    floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - acceptance_time())
                + max(widest_window)
            FROM node HAVING bool_and(widest_window IS NOT NULL)
        $$
        """,
    ]
}
