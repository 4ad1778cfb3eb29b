@testable import Ledger
@testable import PostgreSQLLedger
@testable import SQLiteLedger

/// A ledger with additional functions for tests.
protocol TestedLedger: Ledger {
    /// Runs a closure on the writer's thread, after everything queued earlier.
    func onWriter(_ body: @escaping @Sendable () -> Void)
    /// The number of writes that wait for the next batch.
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
