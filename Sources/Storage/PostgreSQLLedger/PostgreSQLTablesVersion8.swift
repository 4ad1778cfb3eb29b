import Ledger

extension PostgreSQLTables {
    /// Audit keys of any type, and the HSM token that has each.
    static let version8 = [
        // `public_key` may be an RSA key's SubjectPublicKeyInfo. `hsm_token` is the configured name of the HSM token that
        // has the key. It is NULL for keys of earlier versions, until the node has found the key in an HSM token.
        """
        ALTER TABLE audit_key DROP CONSTRAINT audit_key_public_key_check,
            ADD CONSTRAINT audit_key_public_key_check CHECK (octet_length(public_key) IN (65, 294)),
            ADD COLUMN hsm_token text
        """
    ]
}
