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

/// A dictionary with a maximum number of entries. A new entry replaces the oldest one of a full table.
package struct BoundedTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private let capacity: Int
    private var values: [Key: Value] = [:]
    /// The keys in a ring of ``capacity`` places. Once the ring is full, `next` is the place of the oldest key.
    private var order: [Key] = []
    private var next = 0

    /// - Parameter capacity: the maximum number of entries, at least 1.
    package init(capacity: Int) {
        self.capacity = capacity
    }

    package subscript(key: Key) -> Value? {
        values[key]
    }

    /// Sets the value of a key. A key that is in the table already keeps its age.
    package mutating func set(_ value: Value, for key: Key) {
        guard values.updateValue(value, forKey: key) == nil else { return }
        if order.count < capacity {
            order.append(key)
        } else {
            values[order[next]] = nil
            order[next] = key
            next = (next + 1) % capacity
        }
    }
}
