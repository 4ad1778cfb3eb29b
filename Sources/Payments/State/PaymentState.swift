/// How far a payment has come. The raw values are stored and shown to people.
public enum PaymentState: String, Sendable, CaseIterable {
    /// A client's token is known by the SHA-256 of its paymentData. Nothing is decrypted.
    case received
    /// paytokend released the token, and its transaction identifier is this payment's name. Nothing is sent.
    case decrypted
    /// The processor's first byte may have been sent. Stored before it is.
    case submitting
    /// The processor authorized the payment.
    case authorized
    /// The processor authorized the payment and took the money.
    case captured
    /// The processor declined the payment.
    case declined
    /// The processor answered that it did not process the payment.
    case error
    /// It was submitted and its fate is unknown. It is never sent again.
    case pending
    /// Nothing reached the processor, for certain. The same client may try again.
    case notSent = "not_sent"
    /// The decrypted data went to the caller. Nothing is submitted from here, ever.
    case released
    /// The token or the request was refused before anything was sent.
    case refused

    /// The states that may follow this one. No other change of state is stored.
    ///
    /// `submitting` follows `decrypted` alone, and only `submitting` itself, by its owner who knows that no byte
    /// left, leads back to it through `notSent`. `pending` leads to a fate and never to `notSent`: what may have been
    /// sent is not sent again.
    public var successors: Set<PaymentState> {
        switch self {
        case .received: [.decrypted, .refused]
        case .decrypted: [.submitting, .notSent, .released, .refused]
        case .submitting: [.authorized, .captured, .declined, .error, .pending, .notSent]
        case .pending: [.authorized, .captured, .declined, .error]
        case .notSent: [.decrypted, .refused]
        case .authorized, .captured, .declined, .error, .released, .refused: []
        }
    }

    /// Whether a payment in this state may become `next`.
    public func mayBecome(_ next: PaymentState) -> Bool { successors.contains(next) }

    /// Whether nothing changes any more.
    public var isFinal: Bool { successors.isEmpty }

    /// Whether a byte of the payment may have reached a processor.
    public var mayHaveBeenSent: Bool {
        switch self {
        case .submitting, .authorized, .captured, .declined, .error, .pending: true
        case .received, .decrypted, .notSent, .released, .refused: false
        }
    }
}
