public import Payments

/// A payment processor, as the gateway sees it: submit once, and perhaps ask what became of it.
///
/// To add one, write a type in a file of its own that says what it takes and needs (``capabilities``) and how a submission is
/// put to it (``authorize(_:before:late:)``), by ``ProcessorExchange`` if it speaks HTTP, and name its kind in the gateway's
/// `ProcessorDirectory`. ``SimulatorProcessor`` is the example.
///
/// The store of payments has written `submitting` durably before ``authorize(_:before:late:)`` is called, and calls it once. What it
/// answers decides whether the payment may ever be tried again, so that in doubt it is ``SubmissionOutcome/unknown(_:)``.
public protocol Processor: Sendable {
    var capabilities: ProcessorCapabilities { get }

    /// What of a request does not suit this processor: a city that is too long, say. Asked before the token is touched, and for
    /// requests that have all that ``ProcessorCapabilities/needs`` names.
    func unsuitable(_ customer: Customer, orderId: String?) -> [UnsuitableElement]

    /// Why a submission cannot be put to this processor, in a few words without a value of it; nil where it can. Asked before
    /// the payment is `submitting`, for what can be known only of a decrypted token.
    func objection(to submission: Submission) -> String?

    /// Submits, once: on a connection of its own, so that a failure before the first byte is known for what it is. No retry,
    /// no redirect.
    ///
    /// - Parameters:
    ///   - deadline: nothing is sent after it, and no answer waited for.
    ///   - late: gets an answer that comes after the deadline, at most once. The outcome was unknown then.
    func authorize(
        _ submission: Submission, before deadline: ContinuousClock.Instant, late: @escaping LateOutcome
    ) async -> SubmissionOutcome

    /// What became of a payment whose answer was lost. Called only where ``ProcessorCapabilities/tellsStatus``.
    func status(of payment: SubmittedPayment, before deadline: ContinuousClock.Instant) async -> ProcessorStatus
}

extension Processor {
    public func unsuitable(_ customer: Customer, orderId: String?) -> [UnsuitableElement] { [] }

    public func objection(to submission: Submission) -> String? { nil }

    public func status(of payment: SubmittedPayment, before deadline: ContinuousClock.Instant) async -> ProcessorStatus
    {
        .notAnswered("this processor tells nothing of a payment")
    }
}

/// What a processor takes of what Apple's payment data may hold, and what a request must have for it.
public struct ProcessorCapabilities: Sendable, Equatable {
    /// Values of `paymentDataType`.
    public var paymentData: Set<PaymentDataType>
    /// `authenticationResponses`: one authorization for several merchants.
    public var takesSeveralMerchants: Bool
    /// An amount of zero, or none, as Apple's token for a later or recurring payment may have.
    public var takesNoAmount: Bool
    /// What must stand in the request.
    public var needs: [RequiredElement]
    /// Whether ``Processor/status(of:before:)`` can tell what became of a payment after its answer was lost.
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
    /// `phoneNumber` and `emailAddress` are taken from shippingContact where billingContact has none.
    case billing(ContactElement)
    case shipping(ContactElement)

    /// As the request names it: `billingContact.locality`.
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
    /// What it must be, in a few words. Never its value.
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

/// How a submission ended.
public enum SubmissionOutcome: Sendable, Equatable {
    case answered(ProcessorAnswer)
    /// For certain, no byte of the payment has left this host.
    case notSent(ExchangeFault)
    /// It may have arrived. It is never sent again.
    case unknown(ExchangeFault)
}

/// Takes what came of a submission after its deadline.
public typealias LateOutcome = @Sendable (SubmissionOutcome) async -> Void

/// What a processor says became of a payment.
public struct ProcessorAnswer: Sendable, Equatable {
    /// `authorized`, `captured`, `declined`, `error`; `pending` where the processor itself does not know yet.
    public let state: PaymentState
    public let outcome: PaymentOutcome

    /// - Parameter state: anything but those becomes `pending`: what is not understood is not known.
    public init(_ state: PaymentState, _ outcome: PaymentOutcome) {
        self.state = [.authorized, .captured, .declined, .error].contains(state) ? state : .pending
        self.outcome = outcome
    }
}

/// What a question about a payment gave.
public enum ProcessorStatus: Sendable, Equatable {
    case known(ProcessorAnswer)
    /// The processor has no trace of it. That does not make it sendable: the submission may still be on its way.
    case noTrace
    case notAnswered(String)
}

/// A payment that was submitted, as far as the store knows it.
public struct SubmittedPayment: Sendable {
    /// The transaction identifier, 64 lower-case hex digits.
    public let transactionId: String
    public let amount: Amount?
    public let orderId: String?
    /// What the processor called it, where it said.
    public let processorReference: String?

    public init(transactionId: String, amount: Amount?, orderId: String?, processorReference: String?) {
        self.transactionId = transactionId
        self.amount = amount
        self.orderId = orderId
        self.processorReference = processorReference
    }
}
