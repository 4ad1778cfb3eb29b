import Encodings
public import Foundation

/// One payment token of one client, and the payment's progress: everything that is stored. It contains no card data and
/// no contacts.
public struct Payment: Sendable, Equatable {
    /// The key by which a client's payment token is found again.
    public struct Key: Sendable, Hashable {
        /// The client's name in the gateway's configuration.
        public let client: String
        /// SHA-256 of the payment token's paymentData, 32 bytes.
        public let tokenDigest: [UInt8]

        public init(client: String, tokenDigest: [UInt8]) {
            self.client = client
            self.tokenDigest = tokenDigest
        }
    }

    /// The client's purpose with the payment token. A payment token that was used for one can never be used for the
    /// other.
    public enum Purpose: String, Sendable, CaseIterable {
        /// It is submitted to a processor.
        case payment
        /// Its decrypted data go to the client.
        case release
    }

    public let key: Key
    public let purpose: Purpose
    /// SHA-256 of the rest of the client's request (order, expectations): another digest is another request.
    public let requestDigest: [UInt8]
    /// The client's own name for the order; nil if it gave none.
    public let orderId: String?
    public var state: PaymentState
    /// The attempt that wrote the state.
    public var attempt: PaymentAttempt
    /// Known from paytokend's answer on.
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

    /// Returns true if the attempt that had the payment has certainly stopped: no byte of it is sent from `now` on.
    ///
    /// An attempt checks its deadline right before the processor's first byte, by its own clock. The margin is for the
    /// difference between two hosts' clocks.
    public func isAbandoned(at now: Date) -> Bool {
        now > attempt.deadline.addingTimeInterval(Self.clockMargin)
    }

    /// Seconds.
    public static let clockMargin: TimeInterval = 5

    /// The number of attempts that may end without sending anything before the next ones have to wait.
    public static let mostFreeAttempts = 100
    /// Seconds from the end of the last attempt to the next one, after ``mostFreeAttempts``.
    public static let attemptInterval: TimeInterval = 60

    /// The age in seconds up to which ``PaymentStore/prune()`` keeps a payment without a transaction: seven days. A
    /// payment token lives as long as paytokend's signing-time window and the time in which paytokend repeats a
    /// release, by default minutes and a day.
    public static let retention: TimeInterval = 7 * 86_400
}

/// One try at a payment, by one gateway.
public struct PaymentAttempt: Sendable, Hashable {
    /// 8 random bytes. paytokend receives them with the payment token, and gives them to the caller that has it
    /// released next.
    public let identifier: [UInt8]
    /// The gateway that makes the attempt, for people.
    public let owner: String
    /// The time after which the attempt sends nothing.
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

    /// 16 hex digits.
    public var name: String { Hexadecimal.encode(identifier) }
}

/// The data of a payment that are known once paytokend has released its payment token.
public struct PaymentTransaction: Sendable, Equatable {
    /// The payment token's transaction identifier, 32 bytes: from then on the payment's name in the whole store.
    public let identifier: [UInt8]
    public let merchantIdentifier: String
    /// The amount in Apple's payment data; nil if they have none that can be represented.
    public let amount: Amount?
    /// The processor's name in the configuration; nil if nothing is submitted.
    public let processor: String?
    /// A keyed digest of the card's account number, 33 bytes, by which the gateway recognises that number in the
    /// processor's later answers. Kept until the outcome is known; nil if the gateway has no key for it.
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

    /// 64 hex digits, lower case.
    public var name: String { Hexadecimal.encode(identifier) }

    /// Reads the stored form.
    ///
    /// - Throws: `damaged`, for an impossible amount.
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
    /// Ascending, over all payments.
    public let number: Int64
    public let state: PaymentState
    /// 16 hex digits.
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

    /// The beginning of the reason in a line that changed nothing: the processor gave its answer after another outcome
    /// had been stored.
    public static let contradiction = "contradicts_status"

    static func contradiction(_ outcome: PaymentOutcome) -> String {
        let parts: [String?] = [
            contradiction, outcome.processorReference.map { "reference \($0)" },
            outcome.authorizationCode.map { "code \($0)" }, outcome.reason,
        ]
        return String(parts.compactMap { $0 }.joined(separator: "; ").prefix(200))
    }

    /// True for a processor's answer that differs from the stored outcome.
    public var isContradiction: Bool { reason?.hasPrefix(Self.contradiction) ?? false }
}
