public import GooglePayToken
public import Payments

/// A payment processor. The gateway submits a payment to it once, and may ask for the result later.
///
/// To add a processor, write a type in a file of its own. In ``capabilities``, declare what the processor accepts and
/// needs. In ``authorize(_:before:late:)``, send the submission, with ``ProcessorExchange`` if the processor uses HTTP.
/// Then add its kind to the gateway's `ProcessorDirectory`. ``SimulatorProcessor`` is an example.
///
/// The gateway calls ``authorize(_:before:late:)`` once for a payment, after the store has durably written the state
/// `submitting`. The outcome decides whether the payment may be tried again. If the processor may have received the
/// payment and its result is not known, the method must return ``SubmissionOutcome/unknown(_:)``.
public protocol Processor: Sendable {
    var capabilities: ProcessorCapabilities { get }

    /// Returns the elements of a request that this processor does not accept, for example a city that is too long.
    /// Called before the payment token is decrypted, and only for requests that have all elements of
    /// ``ProcessorCapabilities/needs``.
    func unsuitable(_ customer: Customer, orderId: String?) -> [UnsuitableElement]

    /// Returns the reason why this processor cannot accept a submission, in a few words without values of the
    /// submission; nil if it can. Called before the payment's state becomes `submitting`, for conditions that depend on
    /// the decrypted payment data.
    func objection(to submission: Submission) -> String?

    /// Submits a payment once, without retries or redirects. Must use a new connection, so that it is certain whether a
    /// byte was sent.
    ///
    /// - Parameters:
    ///   - deadline: the time after which nothing is sent and the caller no longer waits.
    ///   - late: a function to call, at most once, with an answer that arrives after the deadline. The method has then
    ///     already returned ``SubmissionOutcome/unknown(_:)``.
    func authorize(
        _ submission: Submission, before deadline: ContinuousClock.Instant, late: @escaping LateOutcome
    ) async -> SubmissionOutcome

    /// Returns the result of a payment whose answer was lost. Called only if ``ProcessorCapabilities/tellsStatus`` is
    /// true.
    func status(of payment: SubmittedPayment, before deadline: ContinuousClock.Instant) async -> ProcessorStatus
}

extension Processor {
    public func unsuitable(_ customer: Customer, orderId: String?) -> [UnsuitableElement] { [] }

    public func objection(to submission: Submission) -> String? { nil }

    public func status(of payment: SubmittedPayment, before deadline: ContinuousClock.Instant) async -> ProcessorStatus
    {
        .notAnswered("this processor does not report the status of a payment")
    }
}

/// The payments that a processor accepts, and the elements that it needs in a payment request.
public struct ProcessorCapabilities: Sendable, Equatable {
    /// The accepted values of Apple Pay's `paymentDataType`.
    public var paymentData: Set<PaymentDataType> = [.threeDSecure]
    /// The accepted kinds of Google Pay's card numbers. The operator's configuration permits some of them. PAN_ONLY is the
    /// card's own number without a cryptogram, for which the card's issuer expects a 3-D Secure step-up. The gateway cannot
    /// do one.
    public var googlePay: Set<GooglePayPayload.AuthMethod> = []
    /// True if the processor accepts a payment to several merchants (`authenticationResponses`).
    public var takesSeveralMerchants = false
    /// True if the processor accepts a payment without an amount or with the amount zero. Apple's payment token for a
    /// later or recurring payment may have no amount.
    public var takesNoAmount = false
    /// The elements that a payment request must have.
    public var needs: [RequiredElement] = []
    /// True if ``Processor/status(of:before:)`` can return the result of a payment whose answer was lost.
    public var tellsStatus = false
}

/// An element of a payment request that a processor may need. The elements of a contact are members of PaymentContact
/// in the API for merchant servers.
public enum RequiredElement: Sendable, Hashable {
    case orderId
    case customerIPAddress
    /// An element of billingContact. If billingContact has no `phoneNumber` or `emailAddress`, the gateway uses the one
    /// in shippingContact.
    case billing(ContactElement)
    case shipping(ContactElement)

    /// The element's name in a request, such as `billingContact.locality`.
    public var name: String {
        switch self {
        case .orderId: "orderId"
        case .customerIPAddress: "customerIPAddress"
        case .billing(let element): "billingContact.\(element.rawValue)"
        case .shipping(let element): "shippingContact.\(element.rawValue)"
        }
    }
}

/// An element of a payment request that a processor does not accept.
public struct UnsuitableElement: Sendable, Equatable {
    public let element: RequiredElement
    /// The requirement that the element does not meet, in a few words without the element's value.
    public let reason: String

    public init(_ element: RequiredElement, _ reason: String) {
        self.element = element
        self.reason = reason
    }
}

public enum ContactElement: String, Sendable, CaseIterable {
    case givenName, familyName, phoneNumber, emailAddress, addressLines, locality, administrativeArea, postalCode,
        countryCode
}

/// The outcome of a submission.
public enum SubmissionOutcome: Sendable, Equatable {
    case answered(ProcessorAnswer)
    /// No byte of the payment has left this host.
    case notSent(ExchangeFault)
    /// The payment may have arrived, so the gateway never sends it again.
    case unknown(ExchangeFault)
}

/// A function that receives the outcome of a submission whose answer arrives after the deadline.
public typealias LateOutcome = @Sendable (SubmissionOutcome) async -> Void

/// The result of a payment that a processor reported.
public struct ProcessorAnswer: Sendable, Equatable {
    /// One of `authorized`, `captured`, `declined`, `error` and `pending`. A payment is `pending` if the answer does
    /// not prove its result.
    public let state: PaymentState
    public let outcome: PaymentOutcome

    /// Makes an answer. Any state that a processor cannot report becomes `pending`.
    public init(_ state: PaymentState, _ outcome: PaymentOutcome) {
        self.state = [.authorized, .captured, .declined, .error].contains(state) ? state : .pending
        self.outcome = outcome
    }
}

/// The processor's answer about the status of a payment.
public enum ProcessorStatus: Sendable, Equatable {
    case known(ProcessorAnswer)
    /// The processor does not know the payment. The gateway must not send it again, because the first submission may
    /// still arrive.
    case noTrace
    case notAnswered(String)
}

/// The stored data of a submitted payment.
public struct SubmittedPayment: Sendable {
    /// The transaction identifier, 64 lower-case hex digits.
    public let transactionId: String
    public let amount: Amount?
    public let orderId: String?
    /// The processor's reference for the payment; nil if the processor gave none.
    public let processorReference: String?

    public init(transactionId: String, amount: Amount?, orderId: String?, processorReference: String?) {
        self.transactionId = transactionId
        self.amount = amount
        self.orderId = orderId
        self.processorReference = processorReference
    }
}
