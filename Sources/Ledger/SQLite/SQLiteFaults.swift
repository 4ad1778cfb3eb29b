/// Places where tests let the engine fail; nothing happens there otherwise.
struct SQLiteFaults: Sendable {
    var beforeCommit: @Sendable () throws -> Void = {}
    /// The commit has taken place and its acknowledgement gets lost.
    var afterCommit: @Sendable () throws -> Void = {}
}
