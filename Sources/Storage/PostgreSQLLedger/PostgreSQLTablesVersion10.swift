import Ledger

extension PostgreSQLTables {
    /// An index for the proofs of a key. It is partial, so that a release does not write it.
    static let version10 = [
        """
        CREATE INDEX audit_record_by_proof ON audit_record (public_key_hash, time) WHERE event = 'key_proof'
        """
    ]
}
