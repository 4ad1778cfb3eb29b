import Ledger

extension PostgreSQLTables {
    /// Keys for Google Pay, and the second name of a claim, which only Google Pay's messages have. One row has both names,
    /// so that a conflict on either leaves neither. The index is partial, so that a release of Apple Pay does not write
    /// it.
    static let googlePayClaims = [
        """
        ALTER TABLE merchant_key DROP CONSTRAINT merchant_key_key_use_check,
            ADD CONSTRAINT merchant_key_key_use_check
            CHECK (key_use IN ('processing', 'identity', 'service', 'google-pay'))
        """,
        "ALTER TABLE claim ADD COLUMN message_claim bytea CHECK (octet_length(message_claim) = 32)",
        "CREATE UNIQUE INDEX claim_by_message ON claim (message_claim) WHERE message_claim IS NOT NULL",
    ]
}
