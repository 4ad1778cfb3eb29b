import AuditChain

/// How a ledger and the token beside it contradict each other.
enum LedgerDisagreement: Sendable, Equatable {
    /// The ledger is new, and the token has an audit key: there was another ledger. `keyId` names the key that accepting
    /// the new ledger would take over; nil when it is not clear which.
    case lost(remembered: Checkpoint?, keyId: AuditDigest?)
    /// The ledger ends before the record that the token remembers.
    case rolledBack(ledgerSequence: Int, remembered: Checkpoint)
    /// The ledger has another record where the token remembers one: it went on from an older copy, or was rewritten.
    case forked(remembered: Checkpoint)
    /// The key that seals this ledger's record is not in the token.
    case anotherToken(keyId: AuditDigest?)

    /// The sequence that the token remembers.
    var hsmTokenSequence: Int? {
        switch self {
        case .lost(let remembered, _): remembered?.sequence
        case .rolledBack(_, let remembered), .forked(let remembered): remembered.sequence
        case .anotherToken: nil
        }
    }

    /// What is wrong, and what can be done.
    var description: String {
        switch self {
        case .lost(let remembered, let keyId):
            "The ledger is new, but the token remembers "
                + (remembered.map { "record \($0.sequence) of node \($0.node.name)" } ?? "an audit key")
                + ", so a ledger was lost. " + Self.whatItMeans
                + (keyId.map {
                    " Accepting takes over the token's audit key with the keyId \($0.hex): compare it with the keyId of a "
                        + "checkpoint exported before, since anyone with the PIN can make such a key."
                } ?? "")
        case .rolledBack(let last, let remembered):
            "The ledger ends with record \(last), but the token remembers record \(remembered.sequence) of "
                + "\(remembered.time.text), so the ledger is an older copy. " + Self.whatItMeans
        case .forked(let remembered):
            "The ledger's record \(remembered.sequence) is not the one that the token remembers, so the ledger went on "
                + "from an older copy or was changed. " + Self.whatItMeans
        case .anotherToken(let keyId):
            "The token does not hold the audit key that sealed this ledger's record"
                + (keyId.map { " (keyId \($0.hex))" } ?? "") + ". Put that token back, or the ledger that belongs to "
                + "this one; nothing is released before."
        }
    }

    private static let whatItMeans =
        "It may have forgotten released transactions and suspended or compromised keys; nothing is released. Put the "
        + "right ledger back. To take this one into service knowingly, start paytokend with --await-restore and run "
        + "paytokenctl ledger accept-restore: whatever it forgot can then be released again, and only the signing-time "
        + "window stands against that."
}
