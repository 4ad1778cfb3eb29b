/// Places where tests let the engine fail; nothing happens there otherwise.
struct SQLiteFaults: Sendable {
    /// All is written and nothing committed.
    var insideTransaction: @Sendable () throws -> Void = {}
    /// The commit has taken place and its acknowledgement gets lost.
    var afterCommit: @Sendable () throws -> Void = {}
}
