import PaymentToken
import Synchronization

/// Transactions whose repeats are used up, as far as this process has seen it happen: whoever goes on repeating one is
/// refused before the HSM is asked, without a look into the database for all other requests.
final class UsedUpRepeats: Sendable {
    private struct State {
        var known: Set<TransactionIdentifier> = []
        /// In the order in which they came; the oldest is forgotten first.
        var order: [TransactionIdentifier] = []
        var next = 0
    }

    /// A million repeats fill it. One that is forgotten costs one more operation of the HSM, and is known again.
    private let capacity: Int
    private let state = Mutex(State())

    init(capacity: Int = 10_000) {
        self.capacity = capacity
    }

    func contains(_ transaction: TransactionIdentifier) -> Bool {
        state.withLock { $0.known.contains(transaction) }
    }

    func insert(_ transaction: TransactionIdentifier) {
        state.withLock { state in
            guard state.known.insert(transaction).inserted else { return }
            if state.order.count < capacity {
                state.order.append(transaction)
            } else {
                state.known.remove(state.order[state.next])
                state.order[state.next] = transaction
                state.next = (state.next + 1) % capacity
            }
        }
    }
}
