import Ledger

extension PostgreSQLTables {
    /// Service keys, and an index for their signatures.
    static let version9 = [
        """
        ALTER TABLE merchant_key DROP CONSTRAINT merchant_key_key_use_check,
            ADD CONSTRAINT merchant_key_key_use_check CHECK (key_use IN ('processing', 'identity', 'service'))
        """,
        "DROP INDEX audit_record_by_signature",
        """
        CREATE INDEX audit_record_by_signature ON audit_record (public_key_hash, time)
        WHERE event IN ('tls_signature', 'jwt_signature') AND outcome = 'ok'
        """,
    ]
}
