import BoundedTable
import Foundation
import GooglePayToken
import Ledger
import Locks
import PaymentToken

/// Remembers, for each caller, what the decryption of a Google Pay message showed that was then refused because of its kind
/// of card number or its times.
///
/// Such a refusal claims nothing, so the ledger does not know the message. Without a limit, a caller that sends the message
/// without end would take the HSM's time from other callers, and bring the card number into memory each time. The table is
/// only in this process's memory, with a message's hash, kind and expiration, and nothing of its card.
final class RefusedMessages: Sendable {
    private struct Message: Hashable {
        let caller: String
        let transaction: TransactionIdentifier
    }

    struct Shown: Sendable {
        let method: GooglePayPayload.AuthMethod
        /// The message's expiration if it was refused for its times; nil otherwise. The times are evaluated again for each
        /// request, since a clock that is set back can make the message valid.
        let expiration: Date?
        /// The number of refusals because of the kind of card number.
        let count: Int
    }

    private let refused: Mutex<BoundedTable<Message, Shown>>

    /// - Parameter capacity: the maximum number of messages to remember; the oldest is forgotten first, and then counted
    ///   from the beginning.
    init(capacity: Int = 10_000) {
        refused = Mutex(BoundedTable(capacity: capacity))
    }

    /// Remembers a refusal after the decryption.
    /// - Parameter expiration: the message's expiration if it is refused for its times; nil to count a refusal because of
    ///   its kind of card number.
    func remember(
        _ method: GooglePayPayload.AuthMethod, expiration: Date? = nil, of transaction: TransactionIdentifier,
        for caller: String
    ) {
        let message = Message(caller: caller, transaction: transaction)
        refused.withLock {
            let known = $0[message]
            let shown = Shown(
                method: method, expiration: expiration ?? known?.expiration,
                count: (known?.count ?? 0) + (expiration == nil ? 1 : 0))
            $0.set(shown, for: message)
        }
    }

    /// Returns what the message showed; nil if this caller's requests for it were not refused.
    func shown(by transaction: TransactionIdentifier, to caller: String) -> Shown? {
        refused.withLock { $0[Message(caller: caller, transaction: transaction)] }
    }

    /// Returns the message's kind of card number, if the message was refused ``Release/maximumRepeats`` times for the
    /// caller; nil otherwise.
    func usedUp(_ transaction: TransactionIdentifier, for caller: String) -> GooglePayPayload.AuthMethod? {
        shown(by: transaction, to: caller).flatMap { $0.count >= Release.maximumRepeats ? $0.method : nil }
    }
}
