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
/// without end would take the HSM's time from other callers, and bring the card number into memory each time. The tables are
/// only in this process's memory, with a message's hash, kind and expiration, and nothing of its card.
final class RefusedMessages: Sendable {
    private struct Message: Hashable {
        let caller: String
        let transaction: TransactionIdentifier
    }

    /// The number of refusals because of the kind of card number, with that kind.
    private let kinds: Mutex<BoundedTable<Message, (method: GooglePayPayload.AuthMethod, count: Int)>>
    /// The expirations of messages that were refused for their times. The times are evaluated again for each request, since
    /// a clock that is set back can make a message valid.
    private let expirations: Mutex<BoundedTable<Message, (method: GooglePayPayload.AuthMethod, expiration: Date)>>

    /// - Parameter capacity: the maximum number of messages in each of the two tables; the oldest is forgotten first, and
    ///   then counted from the beginning.
    init(capacity: Int = 10_000) {
        kinds = Mutex(BoundedTable(capacity: capacity))
        expirations = Mutex(BoundedTable(capacity: capacity))
    }

    // MARK: Kinds of card numbers

    /// Counts a refusal, after the decryption, because of the message's kind of card number.
    func count(_ method: GooglePayPayload.AuthMethod, of transaction: TransactionIdentifier, for caller: String) {
        let message = Message(caller: caller, transaction: transaction)
        kinds.withLock { $0.set((method, ($0[message]?.count ?? 0) + 1), for: message) }
    }

    /// Returns the message's kind of card number, if the message was refused ``Release/maximumRepeats`` times for the
    /// caller; nil otherwise.
    func usedUp(_ transaction: TransactionIdentifier, for caller: String) -> GooglePayPayload.AuthMethod? {
        kinds.withLock { $0[Message(caller: caller, transaction: transaction)] }.flatMap {
            $0.count >= Release.maximumRepeats ? $0.method : nil
        }
    }

    // MARK: Times

    /// Remembers the expiration of a message that was refused, after the decryption, for its times.
    func remember(
        _ expiration: Date, _ method: GooglePayPayload.AuthMethod, of transaction: TransactionIdentifier,
        for caller: String
    ) {
        expirations.withLock { $0.set((method, expiration), for: Message(caller: caller, transaction: transaction)) }
    }

    /// Returns what the message showed; nil if none of this caller's requests for it was refused for the times.
    func refusedForTimes(
        _ transaction: TransactionIdentifier, for caller: String
    ) -> (method: GooglePayPayload.AuthMethod, expiration: Date)? {
        expirations.withLock { $0[Message(caller: caller, transaction: transaction)] }
    }
}
