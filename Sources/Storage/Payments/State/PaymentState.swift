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
    /// The token or the request was refused before anything was sent. The same client may try again, and what refused it then
    /// will refuse it again, unless it was mended.
    case refused

    /// The states that may follow this one. No other change of state is stored.
    ///
    /// `submitting` follows `decrypted` alone. `pending` leads to a fate and never to `notSent`: what may have been sent
    /// is not sent again. `notSent` and `refused` are an attempt's end and lead to the next attempt's `received`; so does
    /// the `received` of an attempt that has been abandoned.
    public var successors: Set<PaymentState> {
        switch self {
        case .received: [.received, .decrypted, .notSent, .refused]
        case .decrypted: [.submitting, .released, .refused]
        case .submitting: [.authorized, .captured, .declined, .error, .pending, .notSent]
        case .pending: [.authorized, .captured, .declined, .error]
        case .notSent, .refused: [.received]
        case .authorized, .captured, .declined, .error, .released: []
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
