import Ledger

extension PostgreSQLTables {
    /// The use of a key, and an index for its signatures.
    static let version5 = [
        // Before this version all keys were for payments. The daemon's role may insert the use but never change it.
        """
        ALTER TABLE merchant_key ADD COLUMN key_use text COLLATE "C" NOT NULL DEFAULT 'processing'
            CHECK (key_use IN ('processing', 'identity'))
        """,
        // Finds the signatures of an identity key, by which its uses are counted. The index is partial, so that a
        // release does not write it.
        """
        CREATE INDEX audit_record_by_signature ON audit_record (public_key_hash, time)
        WHERE event = 'tls_signature' AND outcome = 'ok'
        """,
    ]
}
