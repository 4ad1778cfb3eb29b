public import DaemonAPI
public import Foundation

/// A payment as the gateway's admin socket shows it to people.
public struct PaymentSummary: Codable, Sendable, Equatable {
    public struct Change: Codable, Sendable, Equatable {
        public var state: String
        public var at: Date
        /// The name of the gateway or of the person that made the change.
        public var by: String
        /// The attempt's identifier, 16 hex digits.
        public var attempt: String
        @Nullable public var reason: String?

        public init(state: String, at: Date, by: String, attempt: String, reason: String?) {
            self.state = state
            self.at = at
            self.by = by
            self.attempt = attempt
            self.reason = reason
        }
    }

    /// The transaction identifier, 64 hex digits; null until paytokend has released the payment token.
    @Nullable public var transactionId: String?
    public var client: String
    /// The purpose of the payment token: `payment` or `release`.
    public var purpose: String
    @Nullable public var orderId: String?
    public var state: String
    @Nullable public var merchantIdentifier: String?
    @Nullable public var processor: String?
    /// The amount as a decimal in major units.
    @Nullable public var amount: String?
    /// The currency in ISO 4217 letters.
    @Nullable public var currency: String?
    @Nullable public var authorizationCode: String?
    @Nullable public var processorReference: String?
    @Nullable public var reason: String?
    /// The gateway that last changed the payment.
    public var gateway: String
    public var receivedAt: Date
    public var changedAt: Date
    /// The changes in the order in which they happened; absent in lists.
    public var history: [Change]?

    public init(
        transactionId: String?, client: String, purpose: String, orderId: String?, state: String,
        merchantIdentifier: String?, processor: String?, amount: String?, currency: String?, authorizationCode: String?,
        processorReference: String?, reason: String?, gateway: String, receivedAt: Date, changedAt: Date,
        history: [Change]?
    ) {
        self.client = client
        self.purpose = purpose
        self.state = state
        self.gateway = gateway
        self.receivedAt = receivedAt
        self.changedAt = changedAt
        self.history = history
        self.transactionId = transactionId
        self.orderId = orderId
        self.merchantIdentifier = merchantIdentifier
        self.processor = processor
        self.amount = amount
        self.currency = currency
        self.authorizationCode = authorizationCode
        self.processorReference = processorReference
        self.reason = reason
    }
}

/// The answer of `POST /v1/payments/list`.
public struct PaymentList: Codable, Sendable, Equatable {
    public var items: [PaymentSummary]

    public init(items: [PaymentSummary]) { self.items = items }
}
