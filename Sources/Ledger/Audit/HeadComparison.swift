public import AuditChain

/// How a ledger stands to a chain's head that somebody else remembers, such as the token.
public enum HeadComparison: Sendable, Equatable {
    /// The ledger holds that very record, and perhaps more.
    case continues
    /// The ledger ends before it, with record `last`: it was lost, begun anew or rolled back.
    case behind(last: Int)
    /// The ledger holds another record of that sequence: it went on from an older copy, or was rewritten.
    case forked
    /// The head is of another node's chain.
    case anotherNode
}

extension AuditTrail {
    /// Compares this ledger with what is remembered of its chain elsewhere.
    public func compare(with remembered: Checkpoint) async throws(LedgerFailure) -> HeadComparison {
        let head = try await head()
        guard head.node == remembered.node else { return .anotherNode }
        guard head.sequence >= remembered.sequence else { return .behind(last: head.sequence) }
        let page = try await records(
            AuditFilter(), order: .oldestFirst, after: remembered.sequence - 1, limit: 1)
        guard let record = page.records.first, record.sequence == remembered.sequence,
            record.hash == remembered.hash
        else { return .forked }
        return .continues
    }
}
