/// The progress of a payment. The raw values are stored and displayed.
public enum PaymentState: String, Sendable, CaseIterable {
    /// A client sent a payment token, identified by the SHA-256 of its paymentData. Nothing is decrypted.
    case received
    /// paytokend released the payment token. From now on, its transaction identifier identifies the payment in the
    /// store. Nothing has been sent.
    case decrypted
    /// The first byte may have been sent to the processor. This state is stored before the byte is sent.
    case submitting
    /// The processor authorized the payment.
    case authorized
    /// The processor authorized the payment and captured the money.
    case captured
    /// The processor declined the payment.
    case declined
    /// The processor reported that it did not process the payment.
    case error
    /// The payment was submitted and its outcome is unknown. It is never sent again.
    case pending
    /// It is certain that nothing reached the processor. The same client may try again.
    case notSent = "not_sent"
    /// The decrypted data went to the caller. The gateway never submits this payment itself.
    case released
    /// The payment token or the request was refused before anything was sent. The same client may try again, but will
    /// be refused again unless the cause is fixed.
    case refused

    /// The states that may follow this one. No other change of state is stored.
    ///
    /// `submitting` can only follow `decrypted`. `pending` leads to an outcome and never to `notSent`: a payment that
    /// may have been sent is not sent again. `notSent` and `refused` end an attempt and lead to `received` of the next
    /// attempt. The `received` of an abandoned attempt also leads to the `received` of the next attempt.
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

    /// Returns true if a payment in this state may become `next`.
    public func mayBecome(_ next: PaymentState) -> Bool { successors.contains(next) }

    /// True if no further change of state is possible.
    public var isFinal: Bool { successors.isEmpty }

    /// True if a byte of the payment may have reached a processor.
    public var mayHaveBeenSent: Bool {
        switch self {
        case .submitting, .authorized, .captured, .declined, .error, .pending: true
        case .received, .decrypted, .notSent, .released, .refused: false
        }
    }
}
