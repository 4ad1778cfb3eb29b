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

    public init(identifier: [UInt8], merchantIdentifier: String, amount: Amount?, processor: String?) {
        self.identifier = identifier
        self.merchantIdentifier = merchantIdentifier
        self.amount = amount
        self.processor = processor
    }

    /// 64 hex digits, lower case.
    public var name: String { Hexadecimal.encode(identifier) }

    /// As it is stored.
    ///
    /// - Throws: `damaged`, for an amount that cannot be.
    init(
        identifier: [UInt8], merchantIdentifier: String?, minorUnits: Int64?, currency: String?, processor: String?
    ) throws(PaymentStoreError) {
        var amount: Amount?
        if let minorUnits, let currency {
            amount = Currency(letters: currency).flatMap { Amount(minorUnits: minorUnits, currency: $0) }
            guard amount != nil else { throw .damaged(reason: "an amount") }
        }
        self.init(
            identifier: identifier, merchantIdentifier: merchantIdentifier ?? "", amount: amount, processor: processor)
    }
}

/// What ended an attempt, or a payment.
public struct PaymentOutcome: Sendable, Equatable {
    /// Why, in a word of a closed list or of the processor's documentation: 1 to 100 printable ASCII characters; nil for a
    /// payment that needs no reason.
    public var reason: String?
    /// The processor's, for an authorized or captured payment: 1 to 100 printable ASCII characters.
    public var authorizationCode: String?
    /// By which the processor knows the payment: 1 to 100 printable ASCII characters.
    public var processorReference: String?
    /// When the processor answered.
    public var processedAt: Date?

    public init(
        reason: String? = nil, authorizationCode: String? = nil, processorReference: String? = nil,
        processedAt: Date? = nil
    ) {
        self.reason = Self.bounded(reason).map(Self.withoutAccountNumber)
        self.authorizationCode = Self.bounded(authorizationCode)
        self.processorReference = Self.bounded(processorReference)
        self.processedAt = processedAt
    }

    /// As it is stored: nil where there is nothing of it.
    init?(
        storedReason reason: String?, authorizationCode: String?, processorReference: String?, processedAt: Date?
    ) {
        guard reason != nil || authorizationCode != nil || processorReference != nil || processedAt != nil else {
            return nil
        }
        self.init(
            reason: reason, authorizationCode: authorizationCode, processorReference: processorReference,
            processedAt: processedAt)
    }

    /// With what was known before and is not said anew: by it a person finds the payment at the processor.
    func added(to earlier: PaymentOutcome?) -> PaymentOutcome {
        var outcome = self
        outcome.processorReference = processorReference ?? earlier?.processorReference
        outcome.authorizationCode = authorizationCode ?? earlier?.authorizationCode
        return outcome
    }

    /// Without those texts that have these digits in them, whatever stands between them.
    ///
    /// - Parameter accountNumber: of the payment.
    public func withoutDigits(_ accountNumber: [UInt8]) -> PaymentOutcome {
        func kept(_ text: String?) -> String? {
            guard let text, !accountNumber.isEmpty else { return text }
            let digits = text.utf8.filter { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            let places = 0...max(0, digits.count - accountNumber.count)
            let isThere = places.contains { digits.dropFirst($0).starts(with: accountNumber) }
            return isThere ? "not shown" : text
        }
        return PaymentOutcome(
            reason: kept(reason), authorizationCode: kept(authorizationCode),
            processorReference: kept(processorReference), processedAt: processedAt)
    }

    /// Twelve digits or more with no letter between them may be an account number that a processor repeats.
    private static func withoutAccountNumber(_ text: String) -> String {
        var (digits, longest) = (0, 0)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digits += 1
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): digits = 0
            default: break
            }
            longest = max(longest, digits)
        }
        return longest < 12 ? text : "not shown"
    }

    /// What a processor writes is not trusted to be short, or text.
    private static func bounded(_ text: String?) -> String? {
        guard let text else { return nil }
        let printable = text.unicodeScalars.prefix(100).filter { (0x20...0x7E).contains($0.value) }
        return printable.isEmpty ? nil : String(String.UnicodeScalarView(printable))
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
}
