extension PostgreSQLTables {
    /// What a key is for, and its signatures.
    static let version5 = [
        // Until now all were for payments. The daemon's role may insert it and never change it.
        """
        ALTER TABLE merchant_key ADD COLUMN key_use text COLLATE "C" NOT NULL DEFAULT 'processing'
            CHECK (key_use IN ('processing', 'identity'))
        """,
        // An identity key's uses are its records; a release writes nothing here.
        """
        CREATE INDEX audit_record_by_signature ON audit_record (public_key_hash, time)
        WHERE event = 'tls_signature' AND outcome = 'ok'
        """,
    ]
}
