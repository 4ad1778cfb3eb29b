import Foundation
import Logging
import Payments
import Synchronization

/// What this gateway knows of payments and could not store: it is stored as soon as the store takes changes again.
///
/// Without it a payment that was certainly not sent would be unknown to the store, so that its token could not be tried again, and
/// a fate that the processor told would be asked for once more, or looked for by a person.
final class UnstoredChanges: Sendable {
    private struct Change {
        let payment: Payment
        let state: PaymentState
        let outcome: PaymentOutcome
    }

    /// A store that is away for so many payments is away for hours; what is more is in the log alone.
    static let capacity = 10_000

    private let changes = Mutex<[Change]>([])

    /// - Parameter state: `notSent` or `refused`, or what ``PaymentStore/settle(_:as:_:at:)`` takes.
    func add(_ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome) {
        changes.withLock { changes in
            guard changes.count < Self.capacity else { return }
            changes.append(Change(payment: payment, state: state, outcome: outcome))
        }
    }

    /// Stores them, the oldest first, until the store fails again.
    ///
    /// - Returns: how many were stored.
    func store(in store: any PaymentStore, _ logger: Logger) async -> Int {
        var count = 0
        while let change = changes.withLock({ $0.first }) {
            do throws(PaymentStoreError) {
                if [.notSent, .refused].contains(change.state) {
                    _ = try await store.end(change.payment, as: change.state, change.outcome, at: Date())
                } else {
                    let settled = try await store.settle(change.payment, as: change.state, change.outcome, at: Date())
                    logger.noteContradiction(settled, by: change.state)
                }
                count += 1
            } catch {
                // Otherwise another attempt has the payment by now, or somebody has said what became of it; or its row cannot be
                // read, and must not keep the others waiting.
                if !error.isOfPayment { return count }
            }
            // Only this takes from the beginning.
            changes.withLock { _ = $0.removeFirst() }
        }
        return count
    }

    var count: Int { changes.withLock { $0.count } }
}
