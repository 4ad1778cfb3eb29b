public import Foundation

/// The store of payments. An answer means that the change has reached the disk.
///
/// Of two writers of one payment, the first wins. Every change names the attempt and the state that it follows; a
/// change that finds another attempt is ``PaymentStoreError/superseded``. Every change and its line of history are one
/// transaction.
///
/// Two engines: ``SQLitePaymentStore`` for one gateway, `PostgreSQLPaymentStore` for several. PaymentStoreConformance
/// in the tests defines what both must do.
public protocol PaymentStore: Sendable {
    /// `sqlite` or `postgresql`.
    var engine: String { get }

    /// A client brings a payment token. Until its deadline only this attempt continues with it.
    func begin(_ arrival: PaymentArrival, at now: Date) async throws(PaymentStoreError) -> PaymentBeginning

    /// paytokend has released the payment token: the transaction's identifier becomes the payment's name, and the
    /// payment is `submitting`, or `released`. Only after this may the first byte go to the processor.
    ///
    /// - Parameter state: `submitting` or `released`; `refused` if the payment cannot be made with the payment token's
    ///   data.
    func claim(
        _ payment: Payment, _ transaction: PaymentTransaction, as state: PaymentState, _ outcome: PaymentOutcome?,
        at now: Date
    ) async throws(PaymentStoreError) -> PaymentClaim

    /// Ends an attempt that certainly sent nothing: `notSent` or `refused`.
    ///
    /// From `received` or `submitting`, by the attempt that has the payment.
    func end(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment

    /// Stores the processor's answer: `authorized`, `captured`, `declined`, `error`; or `pending` if no answer came.
    ///
    /// Also from `pending`, if the answer is late or replies to a query about the payment. The same outcome twice
    /// counts once.
    ///
    /// - Returns: the payment as it is stored. If another outcome was stored before, for example by a person, that one
    ///   stays, and the answer becomes a line of the history (``PaymentChange/isContradiction``).
    func settle(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment

    /// A person states the outcome of a pending payment.
    ///
    /// - Parameters:
    ///   - person: the person, for the record.
    ///   - reason: the reason, for the record.
    func resolve(
        transaction: [UInt8], as state: PaymentState, by person: String, reason: String, at now: Date
    ) async throws(PaymentStoreError) -> Payment

    /// Payments whose attempt ended while they were `submitting` become `pending`: their outcome is unknown.
    ///
    /// - Returns: the number of these payments.
    func takeOverAbandoned(at now: Date) async throws(PaymentStoreError) -> Int

    /// Removes payments without a possible result, with their history: those `received`, `notSent` or `refused` without
    /// a transaction, and last changed more than ``Payment/retention`` ago by the store's own clock. At most 1,000 at a
    /// time; a long history is removed in several calls, before its payment.
    ///
    /// If the payment token comes again later, it is new to the store. paytokend decides about it, and repeats a
    /// release after no attempt that was removed.
    ///
    /// - Returns: the number of removed payments.
    func prune() async throws(PaymentStoreError) -> Int

    /// - Parameter transaction: 32 bytes.
    func payment(transaction: [UInt8]) async throws(PaymentStoreError) -> Payment?

    /// The newest first, unless the filter says otherwise.
    func payments(_ filter: PaymentFilter) async throws(PaymentStoreError) -> [Payment]

    /// The history in the order of events.
    func history(of key: Payment.Key) async throws(PaymentStoreError) -> [PaymentChange]

    /// The number of pending payments, and the age of the oldest.
    func pending() async throws(PaymentStoreError) -> PendingPayments

    /// Checks that the store takes changes. In a file it writes what a payment's arrival writes, synced, and undoes it
    /// in the same commit. A server commits a log record that changes no row, and acknowledges it.
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

/// A client's request, before its payment token is found in the store.
public struct PaymentArrival: Sendable {
    public let key: Payment.Key
    public let purpose: Payment.Purpose
    /// 32 bytes.
    public let requestDigest: [UInt8]
    /// The digests of the client's original spelling; ``key`` and ``requestDigest`` are of the normal form. Earlier
    /// versions stored only these, so they find payments of earlier versions. Nil if there is one spelling.
    public let spelled: Spelled?
    public let orderId: String?
    /// The transaction identifier that the payment token states, 32 bytes, not verified yet. It finds the client's own
    /// payment if the same payment token comes in another form. Nil if it states none.
    public let statedTransaction: [UInt8]?
    /// The time before which payments under the client's name belong to a former client of this name; nil if there was
    /// none.
    public let since: Date?
    public let attempt: PaymentAttempt

    /// Digests of 32 bytes each.
    public struct Spelled: Sendable, Equatable {
        public let tokenDigest: [UInt8]
        public let requestDigest: [UInt8]

        public init(tokenDigest: [UInt8], requestDigest: [UInt8]) {
            self.tokenDigest = tokenDigest
            self.requestDigest = requestDigest
        }
    }

    public init(
        key: Payment.Key, purpose: Payment.Purpose, requestDigest: [UInt8], spelled: Spelled? = nil, orderId: String?,
        statedTransaction: [UInt8]?, since: Date? = nil, attempt: PaymentAttempt
    ) {
        self.key = key
        self.spelled = spelled
        self.since = since
        self.statedTransaction = statedTransaction
        self.purpose = purpose
        self.requestDigest = requestDigest
        self.orderId = orderId
        self.attempt = attempt
    }
}

/// The store's answer to a client's payment token.
public enum PaymentBeginning: Sendable, Equatable {
    /// This attempt has it now.
    ///
    /// - Parameter after: the client's earlier attempts at this payment token that certainly ended without sending
    ///   anything. paytokend receives them, and repeats the release after no other attempt: one that this store does
    ///   not know, for example because it was restored from a copy, may have paid with it.
    case begun(Payment, after: [[UInt8]])
    /// The same request brought it before, with this result so far.
    case known(Payment)
    /// Another attempt is working on it, perhaps until its deadline.
    case underWay(Payment)
    /// Too many attempts at it ended without sending anything: the next one may begin after this time.
    case triedTooOften(seconds: Int)
    /// Another request brought it before: another order, other expectations, another purpose.
    case usedDifferently
    /// A former client of this name brought it.
    case usedBefore
}

/// The answer whether a released payment token may be submitted.
public enum PaymentClaim: Sendable, Equatable {
    /// It is in the requested state, durably.
    case claimed(Payment)
    /// Another payment has this transaction's name. This one is `refused`, durably.
    case usedBefore
}

/// The conditions and order of a list of payments.
public struct PaymentFilter: Sendable {
    public var client: String?
    public var states: Set<PaymentState>
    /// The processor's name in the configuration.
    public var processor: String?
    /// Received at this time or later.
    public var since: Date?
    /// 1 to 1000.
    public var limit: Int
    public var oldestFirst: Bool
    /// The place after which the list continues: the next page.
    public var after: Place?

    /// A payment's place in a list.
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
    /// The time at which the oldest was received; nil if there is none.
    public let oldest: Date?

    public init(count: Int, oldest: Date?) {
        self.count = count
        self.oldest = oldest
    }
}
