/// The body of `POST /v1/ledger/backup?dry_run=true`: nothing was copied. Without the dry run the body is the copy itself.
public struct LedgerBackupDryRun: Codable, Sendable, Equatable {
    /// The last record that a copy would have now; 0 when there is none.
    public var ledgerSequence: Int

    public init(ledgerSequence: Int) {
        self.ledgerSequence = ledgerSequence
    }
}
