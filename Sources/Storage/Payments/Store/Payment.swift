import Encodings
public import Foundation

/// The stored data of one payment: a client's payment token, identified by a digest, and the payment's progress. The
/// store keeps nothing else, and so no card data and no contact data.
public struct Payment: Sendable, Equatable {
    /// The key that identifies a client's payment token in the store.
    public struct Key: Sendable, Hashable {
        /// The client's name in the gateway's configuration.
        public let client: String
        /// A SHA-256 that names the payment token, 32 bytes: of Apple's paymentData, or of Google's wallet and message.
        public let tokenDigest: [UInt8]

        public init(client: String, tokenDigest: [UInt8]) {
            self.client = client
            self.tokenDigest = tokenDigest
        }
    }

    /// The client's purpose for the payment token. A payment token that was used for one purpose can never be used for
    /// the other.
    public enum Purpose: String, Sendable, CaseIterable {
        /// The payment token is submitted to a processor.
        case payment
        /// The decrypted data are returned to the client.
        case release
    }

    public let key: Key
    public let purpose: Purpose
    /// The SHA-256 of the order and the expectations in the client's request. A different digest means a different
    /// request.
    public let requestDigest: [UInt8]
    /// The client's identifier of the order; nil if the request has none.
    public let orderId: String?
    public var state: PaymentState
    /// The attempt that wrote the state.
    public var attempt: PaymentAttempt
    /// The transaction; nil until paytokend has released the payment token.
    public var transaction: PaymentTransaction?
    public var outcome: PaymentOutcome?
    public let receivedAt: Date
    /// The time at which the state was written.
    public var changedAt: Date

    public init(
        key: Key, purpose: Purpose, requestDigest: [UInt8], orderId: String?, state: PaymentState,
        attempt: PaymentAttempt, transaction: PaymentTransaction? = nil, outcome: PaymentOutcome? = nil,
        receivedAt: Date, changedAt: Date
    ) {
        self.key = key
        self.purpose = purpose
        self.requestDigest = requestDigest
        self.orderId = orderId
        self.state = state
        self.attempt = attempt
        self.transaction = transaction
        self.outcome = outcome
        self.receivedAt = receivedAt
        self.changedAt = changedAt
    }

    /// Returns true if it is certain that the attempt working on the payment has stopped: it sends no byte from `now`
    /// on.
    ///
    /// An attempt checks its deadline by its own clock immediately before it sends the first byte to the processor. The
    /// margin allows for the difference between the clocks of two hosts.
    public func isAbandoned(at now: Date) -> Bool {
        now > attempt.deadline.addingTimeInterval(Self.clockMargin)
    }

    /// The largest expected difference in seconds between the clocks of two hosts.
    public static let clockMargin: TimeInterval = 5

    /// The number of attempts that may end without sending anything before further attempts have to wait
    /// ``attemptInterval``.
    public static let maximumFreeAttempts = 100
    /// The minimum time in seconds from the end of the last attempt to the next one, once there were
    /// ``maximumFreeAttempts``.
    public static let attemptInterval: TimeInterval = 60

    /// The age in seconds up to which ``PaymentStore/prune()`` keeps a payment without a transaction: seven days.
    /// paytokend refuses Apple's payment token sooner: after its signing-time window (5 minutes by default), or, for a
    /// repeat, after `ledger.repeat_for` (a day by default). Google's may live longer. That is no risk, since a removed
    /// payment was certainly never sent.
    public static let retention: TimeInterval = 7 * 86_400
}

/// One attempt at a payment, by one gateway.
public struct PaymentAttempt: Sendable, Hashable {
    /// The attempt's identifier, 8 random bytes. paytokend receives them with the payment token, and returns them to
    /// the caller of the next release.
    public let identifier: [UInt8]
    /// The gateway that makes the attempt, for display.
    public let owner: String
    /// The time after which the attempt sends nothing more.
    public let deadline: Date

    public static let identifierByteCount = 8

    public init(identifier: [UInt8], owner: String, deadline: Date) {
        self.identifier = identifier
        self.owner = owner
        self.deadline = deadline
    }

    /// A new attempt with a random identifier.
    public init(owner: String, deadline: Date) {
        var generator = SystemRandomNumberGenerator()
        let number: UInt64 = generator.next()
        self.init(
            identifier: (0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }, owner: owner, deadline: deadline)
    }

    /// The identifier in 16 hex digits.
    public var name: String { Hexadecimal.encode(identifier) }
}

/// The data of a payment that are known once paytokend has released its payment token.
public struct PaymentTransaction: Sendable, Equatable {
    /// The payment token's transaction identifier, 32 bytes: Apple's, or the SHA-256 of Google's `signedMessage`. No two
    /// payments in the store have the same, of whatever wallet.
    public let identifier: [UInt8]
    public let merchantIdentifier: String
    /// The amount in Apple's payment data, or the one that the client stated with Google's; nil if it is missing or cannot be represented.
    public let amount: Amount?
    /// The processor's name in the configuration; nil if nothing is submitted.
    public let processor: String?
    /// A keyed digest of the card's account number, 33 bytes, with which the gateway recognises that number in the
    /// processor's later responses. Nil once the outcome is known, or if the gateway has no key for the digest.
    public internal(set) var accountDigest: [UInt8]?

    public static let accountDigestByteCount = 33

    public init(
        identifier: [UInt8], merchantIdentifier: String, amount: Amount?, processor: String?,
        accountDigest: [UInt8]? = nil
    ) {
        self.identifier = identifier
        self.merchantIdentifier = merchantIdentifier
        self.amount = amount
        self.processor = processor
        self.accountDigest = accountDigest
    }

    /// The identifier in 64 lower-case hex digits.
    public var name: String { Hexadecimal.encode(identifier) }

    /// Reads the stored form.
    ///
    /// - Throws: `damaged` for an impossible amount.
    init(
        identifier: [UInt8], merchantIdentifier: String?, minorUnits: Int64?, currency: String?, processor: String?,
        accountDigest: [UInt8]?
    ) throws(PaymentStoreError) {
        var amount: Amount?
        if let minorUnits, let currency {
            amount = Currency(letters: currency).flatMap { Amount(minorUnits: minorUnits, currency: $0) }
            guard amount != nil else { throw .damaged(reason: "an amount") }
        }
        self.init(
            identifier: identifier, merchantIdentifier: merchantIdentifier ?? "", amount: amount, processor: processor,
            accountDigest: accountDigest)
    }
}

/// One line of a payment's history.
public struct PaymentChange: Sendable, Equatable {
    /// A number that increases over all payments.
    public let number: Int64
    public let state: PaymentState
    /// The attempt's identifier, 16 hex digits.
    public let attempt: String
    public let at: Date
    /// The name of the gateway, or of the person who resolved the payment.
    public let by: String
    public let reason: String?

    public init(number: Int64, state: PaymentState, attempt: String, at: Date, by: String, reason: String?) {
        self.number = number
        self.state = state
        self.attempt = attempt
        self.at = at
        self.by = by
        self.reason = reason
    }

    /// The prefix of the reason in a history line for a response that differs from the stored outcome. The payment
    /// keeps the stored outcome.
    public static let contradiction = "contradicts_status"

    static func contradiction(_ outcome: PaymentOutcome) -> String {
        let parts: [String?] = [
            contradiction, outcome.processorReference.map { "reference \($0)" },
            outcome.authorizationCode.map { "code \($0)" }, outcome.reason,
        ]
        return String(parts.compactMap { $0 }.joined(separator: "; ").prefix(200))
    }

    /// True for a processor's response that differs from the stored outcome.
    public var isContradiction: Bool { reason?.hasPrefix(Self.contradiction) ?? false }
}
