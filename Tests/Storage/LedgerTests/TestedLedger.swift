@testable import Ledger

/// What tests need of an engine beside its promises.
protocol TestedLedger: Ledger {
    /// Runs on the writer's thread, after what was handed to it before.
    func onWriter(_ body: @escaping @Sendable () -> Void)
    /// How many writes wait for the next batch.
    var waitingWrites: Int { get }
}

extension SQLiteLedger: TestedLedger {
    func onWriter(_ body: @escaping @Sendable () -> Void) {
        connections.writer.asyncWriteWithoutTransaction { _ in body() }
    }
    var waitingWrites: Int { writer.writes.waiting }
}

extension PostgreSQLLedger: TestedLedger {
    func onWriter(_ body: @escaping @Sendable () -> Void) { writer.queue.async(execute: body) }
    var waitingWrites: Int { writer.writes.waiting }
}
