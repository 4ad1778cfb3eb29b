import BoundedTable
import Locks
package import PaymentToken

/// The transactions whose repeats were used up while this process ran. The daemon refuses a further repeat of them
/// before it uses the HSM, and without reading the database.
package final class UsedUpRepeats: Sendable {
    private let known: Mutex<BoundedTable<TransactionIdentifier, Bool>>

    /// - Parameter capacity: the maximum number of transactions to remember. A million repeats are needed to reach it. A
    ///   forgotten transaction costs one more HSM operation and is then remembered again.
    package init(capacity: Int = 10_000) {
        known = Mutex(BoundedTable(capacity: capacity))
    }

    package func contains(_ transaction: TransactionIdentifier) -> Bool {
        known.withLock { $0[transaction] != nil }
    }

    package func insert(_ transaction: TransactionIdentifier) {
        known.withLock { $0.set(true, for: transaction) }
    }
}
