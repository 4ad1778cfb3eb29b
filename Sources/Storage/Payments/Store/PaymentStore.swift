public import Foundation

/// Where payments are kept. An answer means that what it says has reached the disk.
///
/// Of two that write to one payment, the first wins: every change names the attempt and the state that it follows, and one that
/// finds another attempt there is ``PaymentStoreError/superseded``. Every change and its line of history are one transaction.
///
/// Two engines: ``SQLitePaymentStore`` for one gateway, `PostgreSQLPaymentStore` for several. PaymentStoreConformance in the
/// tests says what both must do.
public protocol PaymentStore: Sendable {
    /// `sqlite` or `postgresql`.
    var engine: String { get }

    /// A client brings a token. Nobody but this attempt goes on with it until its deadline.
    func begin(_ arrival: PaymentArrival, at now: Date) async throws(PaymentStoreError) -> PaymentBeginning

    /// paytokend has released the token: the transaction's identifier becomes the payment's name, and the payment is
    /// `submitting`, or `released`. After this, and not before, the first byte may go to the processor.
    ///
    /// - Parameter state: `submitting` or `released`; `refused` where the payment cannot be made with what the token says.
    func claim(
        _ payment: Payment, _ transaction: PaymentTransaction, as state: PaymentState, _ outcome: PaymentOutcome?,
        at now: Date
    ) async throws(PaymentStoreError) -> PaymentClaim

    /// Nothing was sent, for certain: `notSent` or `refused`.
    ///
    /// From `received` or `submitting`, by the attempt that has the payment.
    func end(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment

    /// What the processor answered: `authorized`, `captured`, `declined`, `error`; or `pending` when its answer did not come.
    ///
    /// Also from `pending`, where the answer comes late or to a question about the payment. The same fate twice is one.
    ///
    /// - Returns: the payment as it is stored. Where another fate was stored before, a person's say, that one stays, and the answer is a line
    ///   of the history (``PaymentChange/isContradiction``).
    func settle(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment

    /// A person says what became of a pending payment.
    ///
    /// - Parameters:
    ///   - person: who, for the record.
    ///   - reason: why, for the record.
    func resolve(
        transaction: [UInt8], as state: PaymentState, by person: String, reason: String, at now: Date
    ) async throws(PaymentStoreError) -> Payment

    /// Payments whose attempt ended while they were `submitting` become `pending`: their fate is not known.
    ///
    /// - Returns: how many there were.
    func takeOverAbandoned(at now: Date) async throws(PaymentStoreError) -> Int

    /// Removes payments, and their history, that nothing can come of any more: `received`, `notSent` or `refused` without a
    /// transaction, and last changed more than ``Payment/retention`` ago by the store's own clock. At most 1,000 at a
    /// time, and a long history in several calls, before its payment.
    ///
    /// A token that is brought again later is new to the store. paytokend decides about it, and releases it after no attempt that is
    /// forgotten.
    ///
    /// - Returns: how many were removed.
    func prune() async throws(PaymentStoreError) -> Int

    /// - Parameter transaction: 32 bytes.
    func payment(transaction: [UInt8]) async throws(PaymentStoreError) -> Payment?

    /// The newest first, unless the filter says otherwise.
    func payments(_ filter: PaymentFilter) async throws(PaymentStoreError) -> [Payment]

    /// In the order in which it happened.
    func history(of key: Payment.Key) async throws(PaymentStoreError) -> [PaymentChange]

    /// How many are pending, and since when the oldest is.
    func pending() async throws(PaymentStoreError) -> PendingPayments

    /// Checks that the store takes changes: a file gets what a payment's arrival writes, synced, and taken back in the same commit;
    /// a server commits a log record that changes no row, and acknowledges it.
    func probe() async throws(PaymentStoreError)

    /// The number of payments that lists and ``takeOverAbandoned(at:)`` have skipped, because their rows hold what this version does not know.
    var unreadablePayments: Int { get }

    /// What is under way is finished first.
    func close() async
}

extension PaymentStore {
    public var unreadablePayments: Int { 0 }
}

/// A client's request, before anything is known of its token.
public struct PaymentArrival: Sendable {
    public let key: Payment.Key
    public let purpose: Payment.Purpose
    /// 32 bytes.
    public let requestDigest: [UInt8]
    /// The digests of what the client wrote as it spelled it; ``key`` and ``requestDigest`` are of its normal form. Earlier versions stored
    /// only these, so a payment that they stored is found by them. nil where there is one spelling.
    public let spelled: Spelled?
    public let orderId: String?
    /// The transaction identifier that the token states, 32 bytes, verified by nobody yet: finds the client's own payment
    /// where the same token comes in another form; nil where it states none.
    public let statedTransaction: [UInt8]?
    /// What the client's name brought before belongs to a former client of this name; nil where there was none.
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

/// What a client's token meets in the store.
public enum PaymentBeginning: Sendable, Equatable {
    /// It is this attempt's now.
    ///
    /// - Parameter after: the client's earlier attempts at this token that are known to have ended without sending anything.
    ///   paytokend is told them and releases the token after no other: one that this store does not know, because it was
    ///   restored from a copy, say, may have paid with it.
    case begun(Payment, after: [[UInt8]])
    /// It was brought before, by the same request, and this is what became of it.
    case known(Payment)
    /// Another attempt is at it, and may be until its deadline.
    case underWay(Payment)
    /// Too many attempts at it ended without sending anything: the next one may begin after this time.
    case triedTooOften(seconds: Int)
    /// It was brought before for something else: another order, other expectations, another purpose.
    case usedDifferently
    /// A former client of this name brought it.
    case usedBefore
}

/// Whether a released token may be submitted.
public enum PaymentClaim: Sendable, Equatable {
    /// It is in the state that was asked for, durably.
    case claimed(Payment)
    /// Another payment has this transaction's name. This one is `refused`, durably.
    case usedBefore
}

/// Which payments are looked for.
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
    /// Only what comes behind this place in that order: the next page.
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
    /// When the oldest was received; nil where there is none.
    public let oldest: Date?

    public init(count: Int, oldest: Date?) {
        self.count = count
        self.oldest = oldest
    }
}
