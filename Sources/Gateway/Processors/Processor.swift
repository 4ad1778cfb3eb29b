public import Payments

/// A payment processor, as the gateway sees it: submits a payment once, and perhaps tells its result later.
///
/// To add one, write a type in a file of its own that says what it takes and needs (``capabilities``) and how a
/// submission is put to it (``authorize(_:before:late:)``), by ``ProcessorExchange`` if it speaks HTTP, and name its
/// kind in the gateway's `ProcessorDirectory`. ``SimulatorProcessor`` is the example.
///
/// The store of payments has written `submitting` durably before ``authorize(_:before:late:)`` is called, and the
/// gateway calls it once. Its outcome decides whether the payment may ever be tried again, so in doubt it must be
/// ``SubmissionOutcome/unknown(_:)``.
public protocol Processor: Sendable {
    var capabilities: ProcessorCapabilities { get }

    /// Returns the elements of a request that do not suit this processor, for example a city that is too long. Called
    /// before the payment token is decrypted, and for requests that have all that ``ProcessorCapabilities/needs``
    /// names.
    func unsuitable(_ customer: Customer, orderId: String?) -> [UnsuitableElement]

    /// Returns the reason why a submission cannot be put to this processor, in a few words without a value of it, or
    /// nil if it can. Called before the payment is `submitting`, for conditions that only a decrypted payment token
    /// reveals.
    func objection(to submission: Submission) -> String?

    /// Submits a payment once, on a connection of its own, so that a failure before the first byte is recognised as
    /// such. No retry, no redirect.
    ///
    /// - Parameters:
    ///   - deadline: the time after which nothing is sent and no answer awaited.
    ///   - late: receives an answer that comes after the deadline, at most once. The outcome was unknown then.
    func authorize(
        _ submission: Submission, before deadline: ContinuousClock.Instant, late: @escaping LateOutcome
    ) async -> SubmissionOutcome

    /// Returns the result of a payment whose answer was lost. Called only with ``ProcessorCapabilities/tellsStatus``.
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

/// The kinds of Apple's payment data that a processor takes, and the elements that a request must have for it.
public struct ProcessorCapabilities: Sendable, Equatable {
    /// The values of `paymentDataType` that it takes.
    public var paymentData: Set<PaymentDataType>
    /// True if it takes `authenticationResponses`: one authorization for several merchants.
    public var takesSeveralMerchants: Bool
    /// True if it takes an amount of zero, or none, as Apple's payment token for a later or recurring payment may have.
    public var takesNoAmount: Bool
    /// The elements that a request must have.
    public var needs: [RequiredElement]
    /// True if ``Processor/status(of:before:)`` can tell a payment's result after its answer was lost.
    public var tellsStatus: Bool

    public init(
        paymentData: Set<PaymentDataType> = [.threeDSecure], takesSeveralMerchants: Bool = false,
        takesNoAmount: Bool = false, needs: [RequiredElement] = [], tellsStatus: Bool = false
    ) {
        self.paymentData = paymentData
        self.takesSeveralMerchants = takesSeveralMerchants
        self.takesNoAmount = takesNoAmount
        self.needs = needs
        self.tellsStatus = tellsStatus
    }
}

/// An element of a payment request that a processor may need. Contacts are PaymentContact's members of the merchant server's API.
public enum RequiredElement: Sendable, Hashable {
    case orderId
    case customerIPAddress
    /// `phoneNumber` and `emailAddress` are taken from shippingContact if billingContact has none.
    case billing(ContactElement)
    case shipping(ContactElement)

    /// The element's name in a request: `billingContact.locality`.
    public var name: String {
        switch self {
        case .orderId: "orderId"
        case .customerIPAddress: "customerIPAddress"
        case .billing(let element): "billingContact.\(element.rawValue)"
        case .shipping(let element): "shippingContact.\(element.rawValue)"
        }
    }
}

/// An element of a payment request that a processor cannot take as it is.
public struct UnsuitableElement: Sendable, Equatable {
    public let element: RequiredElement
    /// The requirement that the element breaks, in a few words. Never its value.
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

/// The end of a submission.
public enum SubmissionOutcome: Sendable, Equatable {
    case answered(ProcessorAnswer)
    /// Certainly no byte of the payment has left this host.
    case notSent(ExchangeFault)
    /// The payment may have arrived. It is never sent again.
    case unknown(ExchangeFault)
}

/// Receives a submission's outcome after its deadline.
public typealias LateOutcome = @Sendable (SubmissionOutcome) async -> Void

/// A processor's statement about a payment's result.
public struct ProcessorAnswer: Sendable, Equatable {
    /// `authorized`, `captured`, `declined`, `error`; `pending` if the processor itself does not know yet.
    public let state: PaymentState
    public let outcome: PaymentOutcome

    /// - Parameter state: the state. Any other than those becomes `pending`, since a result that is not understood is
    ///   not known.
    public init(_ state: PaymentState, _ outcome: PaymentOutcome) {
        self.state = [.authorized, .captured, .declined, .error].contains(state) ? state : .pending
        self.outcome = outcome
    }
}

/// The answer to a question about a payment.
public enum ProcessorStatus: Sendable, Equatable {
    case known(ProcessorAnswer)
    /// The processor has no trace of it. That does not make it sendable: the submission may still be on its way.
    case noTrace
    case notAnswered(String)
}

/// A submitted payment, as far as the store knows it.
public struct SubmittedPayment: Sendable {
    /// The transaction identifier, 64 lower-case hex digits.
    public let transactionId: String
    public let amount: Amount?
    public let orderId: String?
    /// The processor's name for the payment, if it gave one.
    public let processorReference: String?

    public init(transactionId: String, amount: Amount?, orderId: String?, processorReference: String?) {
        self.transactionId = transactionId
        self.amount = amount
        self.orderId = orderId
        self.processorReference = processorReference
    }
}
