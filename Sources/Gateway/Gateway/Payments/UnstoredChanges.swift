import Foundation
import Locks
import Logging
import Payments

/// Changes of payments that this gateway could not store. They are stored as soon as the store accepts changes again.
///
/// If such changes were lost, the store would not know that a payment was certainly not sent, and its payment token
/// could not be tried again. The gateway would also have to ask again for a result that the processor has already
/// reported, or a person would have to find it.
final class UnstoredChanges: Sendable {
    private struct Change {
        let payment: Payment
        let state: PaymentState
        let outcome: PaymentOutcome
    }

    /// The maximum number of changes kept, which is reached only if the store is unavailable for hours. Further changes
    /// are only logged.
    static let capacity = 10_000

    private let changes = Mutex<[Change]>([])

    /// Keeps a change until the store accepts it. Drops the change if ``capacity`` changes are kept already.
    ///
    /// - Parameter state: `notSent` or `refused`, or a state that ``PaymentStore/storeOutcome(_:as:_:at:)`` accepts.
    func add(_ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome) {
        changes.withLock { changes in
            guard changes.count < Self.capacity else { return }
            changes.append(Change(payment: payment, state: state, outcome: outcome))
        }
    }

    /// Stores the changes, oldest first, until the store fails again.
    ///
    /// - Returns: the number stored.
    func storeAll(in store: any PaymentStore, _ logger: Logger) async -> Int {
        var count = 0
        while let change = changes.withLock({ $0.first }) {
            do throws(PaymentStoreError) {
                if [.notSent, .refused].contains(change.state) {
                    _ = try await store.end(change.payment, as: change.state, change.outcome, at: Date())
                } else {
                    let stored = try await store.storeOutcome(
                        change.payment, as: change.state, change.outcome, at: Date())
                    logger.logContradiction(stored, by: change.state)
                }
                count += 1
            } catch {
                // An error about the payment means that another attempt has replaced this one, a person has resolved
                // the payment, or its row cannot be read. The change is then dropped. Otherwise it would fail first in
                // every round, and no later change would be stored.
                if !error.isAboutPayment { return count }
            }
            // The first element is still this change, because only this method removes from the beginning.
            changes.withLock { _ = $0.removeFirst() }
        }
        return count
    }

    var count: Int { changes.withLock { $0.count } }
}
