import Ledger

extension PostgreSQLTables {
    /// Rules that the database enforces for every change of a row, even if another program logs in with the daemon's
    /// role. The daemons enforce all other rules for keys.
    static let guards = [
        // A compromised or destroyed key can never become usable again.
        """
        CREATE FUNCTION keep_key_ended() RETURNS trigger LANGUAGE plpgsql SET search_path = paytokend, pg_temp AS $$
        BEGIN
            IF (OLD.state = 'destroyed' AND NEW.state <> 'destroyed')
                OR (OLD.state = 'compromised' AND NEW.state NOT IN ('compromised', 'destroyed')) THEN
                RAISE EXCEPTION 'the key has ended' USING ERRCODE = 'P0001';
            END IF;
            RETURN NEW;
        END $$
        """,
        """
        CREATE TRIGGER keep_ended BEFORE UPDATE ON merchant_key
        FOR EACH ROW EXECUTE FUNCTION keep_key_ended()
        """,
        // The number of a claim's repeats never decreases.
        """
        CREATE FUNCTION keep_repeats() RETURNS trigger LANGUAGE plpgsql SET search_path = paytokend, pg_temp AS $$
        BEGIN
            IF NEW.repeats < OLD.repeats THEN
                RAISE EXCEPTION 'repeats are not taken back' USING ERRCODE = 'P0001';
            END IF;
            RETURN NEW;
        END $$
        """,
        """
        CREATE TRIGGER keep_repeats BEFORE UPDATE ON claim
        FOR EACH ROW EXECUTE FUNCTION keep_repeats()
        """,
    ]
}
