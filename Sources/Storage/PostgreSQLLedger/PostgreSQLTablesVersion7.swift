import Ledger

extension PostgreSQLTables {
    /// Account names, which identify people across hosts, and limits on the pruning of claims that hold even if the
    /// server's clock is wrong.
    static let version7 = [
        // The account names of `requester_uid` and `requester` on the requesting node. NULL for a uid without an
        // account, and in requests made by earlier versions.
        "ALTER TABLE approval ADD COLUMN requester_account text, ADD COLUMN requester_login_account text",
        // The greatest lead of a released payment token's signing time over the time of its claim. Nodes do not record
        // leads of up to 30 seconds.
        """
        CREATE FUNCTION signing_lead() RETURNS bigint LANGUAGE sql STABLE SET search_path = paytokend, pg_temp AS $$
            SELECT greatest(30000, max(signed_ahead)) FROM node
        $$
        """,
        // The widest signing-time window that a node has reported; at least 30 seconds, which is half of the shortest
        // permitted `retain_claims`. A program that logs in with the daemon's role can report a window that is too
        // narrow. The safety of claims must therefore not depend on this value. Only the range of signing times that
        // are served depends on it.
        """
        CREATE FUNCTION widest_known_window() RETURNS bigint LANGUAGE sql STABLE
        SET search_path = paytokend, pg_temp AS $$
            SELECT greatest(30000, max(widest_window)) FROM node
        $$
        """,
        // `signed_ahead` limits which claims may be pruned, so the daemon's role cannot reduce it.
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
        // Removes claims made before `horizon`. It also records that claims of payment tokens signed before `signed`
        // may be missing.
        //
        // A removed claim was made before `horizon`. Its payment token was signed at most `signing_lead()` after the
        // claim, and therefore before `signed`. After this commit the payment token is refused because of its signing
        // time, which Apple set independently of the server's clock. In addition, `signed` is so old that no window
        // admits an earlier signing time.
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
        // The earliest signing time from which an operator can permit payment tokens again, after a wrong clock caused
        // claims to be pruned. Payment tokens whose claims were pruned must stay refused. They were signed before the
        // pruning, but the time of the pruning is uncertain: the server's clock may have been fast then, or may be slow
        // now. The function therefore adds `signing_lead()` or `widest_known_window()`, whichever is longer, to the
        // present time.
        """
        CREATE FUNCTION earliest_served() RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER
        SET search_path = paytokend, pg_temp AS $$
            SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
                + greatest(signing_lead(), widest_known_window())
        $$
        """,
        // Corrects the limit `forgotten_before` after a wrong clock had set it; returns false if the limit is no longer
        // `expected`. It never permits payment tokens signed before `earliest_served()`. That function uses the
        // time of the call, not of the transaction's beginning. Otherwise a transaction that is kept open could permit
        // earlier signing times.
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
        // The maximum time, in milliseconds, from the beginning of a daemon's transaction until the transaction accepts
        // a restore.
        """
        CREATE FUNCTION acceptance_time() RETURNS bigint LANGUAGE sql IMMUTABLE SET search_path = paytokend, pg_temp AS $$
            SELECT 30000::bigint
        $$
        """,
        // The earliest fence that the acceptance of a restore may set; NULL while a node's window is off or unknown. It
        // is the time at which the transaction began, by the server's clock, plus the widest window. If the transaction
        // began more than `acceptance_time()` ago, the function uses the time `acceptance_time()` ago instead.
        // Otherwise a transaction that is kept open could set an earlier fence.
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
