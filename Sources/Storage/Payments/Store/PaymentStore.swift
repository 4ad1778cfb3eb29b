public import Foundation

/// The store of payments. When a call returns, its change has reached the disk.
///
/// If two writers change one payment, the first wins. A writer's change fails with ``PaymentStoreError/superseded`` if
/// another attempt has the payment by then, or if the payment's state no longer permits the change. Every change and
/// its line of history are one transaction.
///
/// There are two engines: ``SQLitePaymentStore`` for one gateway, `PostgreSQLPaymentStore` for several.
/// PaymentStoreConformance in the tests defines what both must do.
public protocol PaymentStore: Sendable {
    /// The engine's name for display, `sqlite` or `postgresql`.
    var engine: String { get }

    /// Begins an attempt with a payment token that a client sent. Until the attempt's deadline, no other attempt can
    /// continue with the payment token.
    func begin(_ arrival: PaymentArrival, at now: Date) async throws(PaymentStoreError) -> PaymentBeginning

    /// Stores that paytokend has released the payment token. The transaction's identifier becomes the payment's name,
    /// and the payment becomes `submitting` or `released`. Only afterwards may the first byte be sent to the processor.
    ///
    /// - Parameter state: `submitting` or `released`; `refused` if the payment cannot be made with the payment token's
    ///   data.
    func claim(
        _ payment: Payment, _ transaction: PaymentTransaction, as state: PaymentState, _ outcome: PaymentOutcome?,
        at now: Date
    ) async throws(PaymentStoreError) -> PaymentClaim

    /// Ends an attempt that certainly sent nothing. The payment becomes `notSent` or `refused`.
    ///
    /// The payment must be `received`, `decrypted` or `submitting`, and the caller's attempt must be the one working on
    /// it.
    func end(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment

    /// Stores the processor's response: `authorized`, `captured`, `declined` or `error`; or `pending` if the processor
    /// gave no response.
    ///
    /// The payment may be `submitting` or `pending`. It is already `pending` if the response arrives late, or if the
    /// response answers a later query about the payment. Storing an outcome a second time changes nothing.
    ///
    /// - Returns: the payment as it is stored. If a different outcome was stored before, for example by a person, it is
    ///   kept, and the response becomes a line of the history (``PaymentChange/isContradiction``).
    func storeOutcome(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment

    /// Stores the outcome of a pending payment as stated by a person.
    ///
    /// - Parameters:
    ///   - person: the person's name, for the history.
    ///   - reason: the person's reason, for the history.
    func resolve(
        transaction: [UInt8], as state: PaymentState, by person: String, reason: String, at now: Date
    ) async throws(PaymentStoreError) -> Payment

    /// Changes `submitting` payments whose attempt has ended to `pending`, since their outcome is unknown.
    ///
    /// - Returns: the number of these payments.
    func takeOverAbandoned(at now: Date) async throws(PaymentStoreError) -> Int

    /// Removes payments that cannot have a result, with their history: those that are `received`, `notSent` or
    /// `refused`, have no transaction, and were last changed more than ``Payment/retention`` ago by the store's clock.
    /// One call removes at most 1,000 payments. A long history is removed in several calls, before its payment.
    ///
    /// If the payment token arrives again later, the store treats it as new, and lists none of its earlier attempts.
    /// paytokend repeats a release only if the new attempt names the attempt that received the last release. If a
    /// removed attempt received it, paytokend therefore refuses the payment token.
    ///
    /// - Returns: the number of removed payments.
    func prune() async throws(PaymentStoreError) -> Int

    /// Returns the payment of a transaction; nil if there is none.
    ///
    /// - Parameter transaction: the transaction identifier, 32 bytes.
    func payment(transaction: [UInt8]) async throws(PaymentStoreError) -> Payment?

    /// Returns the payments that match the filter, newest first unless ``PaymentFilter/oldestFirst`` is true.
    func payments(_ filter: PaymentFilter) async throws(PaymentStoreError) -> [Payment]

    /// Returns the lines of a payment's history in chronological order.
    func history(of key: Payment.Key) async throws(PaymentStoreError) -> [PaymentChange]

    /// Returns the number of pending payments, and the time at which the oldest one was received.
    func pending() async throws(PaymentStoreError) -> PendingPayments

    /// Checks that the store accepts changes. A store in a file makes the same writes as for a new payment, undoes them
    /// in the same transaction, and syncs the commit to disk. A database server commits a log record that changes no
    /// row, and acknowledges the commit.
    func probe() async throws(PaymentStoreError)

    /// The number of payments that lists and ``takeOverAbandoned(at:)`` have skipped, because their rows contain values
    /// that this version does not know.
    var unreadablePayments: Int { get }

    /// Closes the store after the current operations have ended.
    func close() async
}

extension PaymentStore {
    public var unreadablePayments: Int { 0 }
}

/// A client's request with a payment token. The store uses it to find an earlier payment, or to begin a new one.
public struct PaymentArrival: Sendable {
    public let key: Payment.Key
    public let purpose: Payment.Purpose
    /// The digest of the request's normal form, 32 bytes.
    public let requestDigest: [UInt8]
    /// The digests of the request as the client wrote it. Nil if the client used the normal form, whose digests are in
    /// ``key`` and ``requestDigest``. Earlier versions stored only the digests of the request as the client wrote it,
    /// and the store finds their payments by these digests.
    public let originalDigests: OriginalDigests?
    public let orderId: String?
    /// The transaction identifier that the payment token states, 32 bytes, not verified yet. The store uses it to find
    /// the client's own payment if the same payment token arrives in a different form. Nil if the payment token states
    /// no identifier.
    public let statedTransaction: [UInt8]?
    /// The time before which payments under the client's name belong to a former client of this name; nil if the name
    /// had no former client.
    public let since: Date?
    public let attempt: PaymentAttempt

    /// The digests of the payment token and of the request as the client wrote them, 32 bytes each.
    public struct OriginalDigests: Sendable, Equatable {
        public let tokenDigest: [UInt8]
        public let requestDigest: [UInt8]

        public init(tokenDigest: [UInt8], requestDigest: [UInt8]) {
            self.tokenDigest = tokenDigest
            self.requestDigest = requestDigest
        }
    }

    public init(
        key: Payment.Key, purpose: Payment.Purpose, requestDigest: [UInt8], originalDigests: OriginalDigests? = nil,
        orderId: String?, statedTransaction: [UInt8]?, since: Date? = nil, attempt: PaymentAttempt
    ) {
        self.key = key
        self.originalDigests = originalDigests
        self.since = since
        self.statedTransaction = statedTransaction
        self.purpose = purpose
        self.requestDigest = requestDigest
        self.orderId = orderId
        self.attempt = attempt
    }
}

/// The store's response to a client's payment token.
public enum PaymentBeginning: Sendable, Equatable {
    /// This attempt now has the payment.
    ///
    /// - Parameter after: the client's earlier attempts at this payment token that certainly ended without sending
    ///   anything. paytokend receives them, and does not repeat a release after any other attempt. An attempt that this
    ///   store does not know, for example because the store was restored from a copy, may have paid with the payment
    ///   token.
    case begun(Payment, after: [[UInt8]])
    /// The same request was sent before. This is its payment, with the result so far.
    case known(Payment)
    /// Another attempt is working on the payment, possibly until its deadline.
    case underWay(Payment)
    /// Too many attempts ended without sending anything. The next attempt may begin after `seconds`.
    case triedTooOften(seconds: Int)
    /// The payment token was sent before with a different request: another order, other expectations, or another
    /// purpose.
    case usedDifferently
    /// A former client of this name sent the payment token.
    case usedBefore
}

/// The result of assigning a transaction identifier to a payment (``PaymentStore/claim(_:_:as:_:at:)``).
public enum PaymentClaim: Sendable, Equatable {
    /// The payment has the transaction identifier, and is durably in the requested state.
    case claimed(Payment)
    /// Another payment already has this transaction identifier. The payment that was to be claimed is durably
    /// `refused`.
    case usedBefore
}

/// The conditions and order of a list of payments.
public struct PaymentFilter: Sendable {
    public var client: String?
    public var states: Set<PaymentState>
    /// The processor's name in the configuration.
    public var processor: String?
    /// The earliest time of receipt, inclusive.
    public var since: Date?
    /// The maximum number of payments, 1 to 1000.
    public var limit: Int
    public var oldestFirst: Bool
    /// The position after which the list continues, for the next page.
    public var after: Place?

    /// A payment's position in a list.
    public struct Place: Sendable, Equatable {
        public let receivedAt: Date
        public let key: Payment.Key

        public init(of payment: Payment) { self.init(receivedAt: payment.receivedAt, key: payment.key) }

        init(receivedAt: Date, key: Payment.Key) { (self.receivedAt, self.key) = (receivedAt, key) }
    }

    public init(
        client: String? = nil, states: Set<PaymentState> = [], processor: String? = nil, since: Date? = nil,
        limit: Int = 100, oldestFirst: Bool = false, after: Place? = nil
    ) {
        self.processor = processor
        self.oldestFirst = oldestFirst
        self.after = after
        self.client = client
        self.states = states
        self.since = since
        self.limit = min(max(limit, 1), 1000)
    }
}

public struct PendingPayments: Sendable, Equatable {
    public let count: Int
    /// The time at which the oldest pending payment was received; nil if no payment is pending.
    public let oldest: Date?

    public init(count: Int, oldest: Date?) {
        self.count = count
        self.oldest = oldest
    }
}
