import Encodings
public import Foundation

/// One token of one client, and what became of it: what is stored, all of it. Nothing of a card and nothing of a contact is.
public struct Payment: Sendable, Equatable {
    /// By what a client's token is found again.
    public struct Key: Sendable, Hashable {
        /// The client's name in the gateway's configuration.
        public let client: String
        /// SHA-256 of the token's paymentData, 32 bytes.
        public let tokenDigest: [UInt8]

        public init(client: String, tokenDigest: [UInt8]) {
            self.client = client
            self.tokenDigest = tokenDigest
        }
    }

    /// What the client wants done with the token. A token that went one way can never go the other.
    public enum Purpose: String, Sendable, CaseIterable {
        /// It is submitted to a processor.
        case payment
        /// Its decrypted data go to the client.
        case release
    }

    public let key: Key
    public let purpose: Purpose
    /// SHA-256 of what the client asked for beside the token (order, expectations): another one is another request.
    public let requestDigest: [UInt8]
    /// The client's own name for what is paid; nil where it gave none.
    public let orderId: String?
    public var state: PaymentState
    /// The attempt that wrote the state.
    public var attempt: PaymentAttempt
    /// From paytokend's answer on.
    public var transaction: PaymentTransaction?
    public var outcome: PaymentOutcome?
    public let receivedAt: Date
    /// When the state was written.
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

    /// Whether it is certain that whoever had the payment has stopped: no byte of it is sent from `now` on.
    ///
    /// An attempt looks at its deadline right before the processor's first byte, by its own clock. The margin is for the
    /// difference between two hosts' clocks.
    public func isAbandoned(at now: Date) -> Bool {
        now > attempt.deadline.addingTimeInterval(Self.clockMargin)
    }

    /// Seconds.
    public static let clockMargin: TimeInterval = 5

    /// Attempts that may end without sending anything before the next ones have to wait.
    public static let mostFreeAttempts = 100
    /// Seconds from the last attempt's end to the next one, after ``mostFreeAttempts``.
    public static let attemptInterval: TimeInterval = 60

    /// The age up to which ``PaymentStore/prune()`` keeps a payment without a transaction, in seconds: seven days. A token lives
    /// as long as paytokend's window for its signing time and the time in which it releases the token again, minutes and a day
    /// by default.
    public static let retention: TimeInterval = 7 * 86_400
}

/// One try at a payment, by one gateway.
public struct PaymentAttempt: Sendable, Hashable {
    /// 8 random bytes: paytokend is told them with the token, and tells them to whoever has it released next.
    public let identifier: [UInt8]
    /// The gateway that has it, for people.
    public let owner: String
    /// After it nothing of this attempt is sent.
    public let deadline: Date

    public static let identifierByteCount = 8

    public init(identifier: [UInt8], owner: String, deadline: Date) {
        self.identifier = identifier
        self.owner = owner
        self.deadline = deadline
    }

    /// A new one with a random identifier.
    public init(owner: String, deadline: Date) {
        var generator = SystemRandomNumberGenerator()
        let number: UInt64 = generator.next()
        self.init(
            identifier: (0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }, owner: owner, deadline: deadline)
    }

    /// 16 hex digits.
    public var name: String { Hexadecimal.encode(identifier) }
}

/// What is known of a payment once paytokend has released its token.
public struct PaymentTransaction: Sendable, Equatable {
    /// The token's transaction identifier, 32 bytes: the payment's name from then on, in all of the store.
    public let identifier: [UInt8]
    public let merchantIdentifier: String
    /// What Apple's payment data say is to be paid; nil where they say nothing that has an amount.
    public let amount: Amount?
    /// The processor's name in the configuration; nil where nothing is submitted.
    public let processor: String?
    /// A keyed digest of the card's account number, 33 bytes, by which it is recognised in what the processor says later; kept until the
    /// fate is known, and nil where the gateway has no key for it.
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

    /// As it is stored.
    ///
    /// - Throws: `damaged`, for an amount that cannot be.
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
    /// Ascending; of all payments together.
    public let number: Int64
    public let state: PaymentState
    /// 16 hex digits.
    public let attempt: String
    public let at: Date
    /// The gateway's name, or the person's who resolved it.
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

    /// The beginning of the reason of a line that changed nothing: the processor answered its state after another fate was stored.
    public static let contradiction = "contradicts_status"

    static func contradiction(_ outcome: PaymentOutcome) -> String {
        let parts: [String?] = [
            contradiction, outcome.processorReference.map { "reference \($0)" },
            outcome.authorizationCode.map { "code \($0)" }, outcome.reason,
        ]
        return String(parts.compactMap { $0 }.joined(separator: "; ").prefix(200))
    }

    /// Returns true for a processor's answer that differs from the stored fate.
    public var isContradiction: Bool { reason?.hasPrefix(Self.contradiction) ?? false }
}
