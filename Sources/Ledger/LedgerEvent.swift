/// What the writer did, for metrics and logs. It is told on the writer's thread, or on the one that
/// noted what was dropped: whoever listens must not block.
public enum LedgerEvent: Sendable, Equatable {
    /// A batch of `writes` became durable, `after` this long from its beginning to the end of its sync.
    case committed(writes: Int, after: Duration)
    /// This node's record is durable up to this sequence, whoever wrote it and whether anybody waited for it.
    case recorded(upTo: Int)
    /// A batch was not acknowledged. Those of its writes that are found in the store are answered all the same.
    case failed(writes: Int, reason: String)
    /// Notes were dropped, since the ledger could not take them. Their number is recorded when it can again.
    case dropped(notes: Int)
}
