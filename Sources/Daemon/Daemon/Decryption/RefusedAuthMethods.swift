import BoundedTable
import GooglePayToken
import Ledger
import Locks
import PaymentToken

/// Counts how often a Google Pay message was decrypted for a caller, and refused because of its kind of card number.
///
/// Such a refusal claims nothing, so the ledger does not count it. Without a limit, a caller that sends the message without
/// end would take the HSM's time from other callers, and bring the card number into memory each time. The counts are only
/// in this process's memory, with a message's hash and kind, and nothing of its card.
final class RefusedAuthMethods: Sendable {
    private struct Message: Hashable {
        let caller: String
        let transaction: TransactionIdentifier
    }

    private let refused: Mutex<BoundedTable<Message, (method: GooglePayPayload.AuthMethod, count: Int)>>

    /// - Parameter capacity: the maximum number of messages to remember; the oldest is forgotten first, and then counted
    ///   from the beginning.
    init(capacity: Int = 10_000) {
        refused = Mutex(BoundedTable(capacity: capacity))
    }

    /// Counts a refusal after the decryption.
    func count(_ method: GooglePayPayload.AuthMethod, of transaction: TransactionIdentifier, for caller: String) {
        let message = Message(caller: caller, transaction: transaction)
        refused.withLock { $0.set((method, ($0[message]?.count ?? 0) + 1), for: message) }
    }

    /// Returns the message's kind of card number, if the message was refused ``Release/maximumRepeats`` times for the
    /// caller; nil otherwise.
    func usedUp(_ transaction: TransactionIdentifier, for caller: String) -> GooglePayPayload.AuthMethod? {
        let known = refused.withLock { $0[Message(caller: caller, transaction: transaction)] }
        return known.flatMap { $0.count >= Release.maximumRepeats ? $0.method : nil }
    }
}
