extension PostgreSQLTables {
    /// What the daemon's role cannot undo, whoever has its login: rules that every change of a row has to keep. What may become of a
    /// key otherwise is decided by the daemons.
    static let guards = [
        // A key that was compromised or destroyed never serves again.
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
        // A caller's repeats are counted up and bounded.
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
