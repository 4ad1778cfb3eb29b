/// Places where tests let an engine fail; nothing happens there otherwise.
struct LedgerFaults: Sendable {
    /// All is written and nothing committed.
    var insideTransaction: @Sendable () throws -> Void = {}
    /// The commit has taken place and its acknowledgement gets lost.
    var afterCommit: @Sendable () throws -> Void = {}
    /// A read begins.
    var reading: @Sendable () throws -> Void = {}
    /// A copy begins.
    var copying: @Sendable () throws -> Void = {}
    /// The ledger is being opened, and its lock is held.
    var opening: @Sendable () throws -> Void = {}
}
