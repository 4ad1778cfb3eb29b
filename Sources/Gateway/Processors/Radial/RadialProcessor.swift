import Foundation
import Payments
import Radial
import SecretMemory

// Unsafe: The secret's pointer is used only within the closure, which copies the account number for the comparison.

/// Submits payments to Radial's Payment Service, as XML over HTTPS. Each payment is one CreditCardAuthRequest with the
/// decrypted data. **This code was never tried against Radial.**
///
/// The sources are public. Radial's page "Credit Card Authorization (card not present)" documents the URI with the
/// tender type, and the codes. The schemas are in eBayEnterprise/RetailOrderManagement-SDK. Its files
/// Api/HttpConfig.php and Api/HttpApi.php show the content type and the header `apikey`, which the processor's
/// `headers_file` contains.
///
/// The endpoint is the address of the store's payments, `https://HOST/v1.0/stores/STORE/payments`. Radial has no call
/// that returns a payment's result.
public struct RadialProcessor: Processor {
    /// No Google Pay: no public document of Radial's describes it.
    public static let capabilities = ProcessorCapabilities(
        paymentData: [.threeDSecure],
        needs: [
            .orderId, .billing(.givenName), .billing(.familyName), .billing(.phoneNumber), .billing(.emailAddress),
            .billing(.addressLines), .billing(.locality), .billing(.countryCode), .customerIPAddress,
        ])
    public var capabilities: ProcessorCapabilities { Self.capabilities }
    private let exchange: ProcessorExchange
    private let leastTime: Duration

    /// The minimum time that must remain until the deadline; otherwise the payment is not sent. If a sent payment gets
    /// no answer before the deadline, a person must ask Radial for the result.
    public static let leastTime = Duration.seconds(3)

    public init(_ exchange: ProcessorExchange) { self.init(exchange, leastTime: Self.leastTime) }

    init(_ exchange: ProcessorExchange, leastTime: Duration) {
        self.exchange = exchange
        self.leastTime = leastTime
    }

    public func unsuitable(_ customer: Customer, orderId: String?) -> [UnsuitableElement] {
        do {
            _ = try CreditCardAuthMessage(requestId: "1", OrderDetails(customer, orderId: orderId))
            return []
        } catch {
            return error.faults.map { UnsuitableElement(RequiredElement($0.element), "\($0.reason)") }
        }
    }

    public func objection(to submission: Submission) -> String? {
        do {
            _ = try RadialRequest(submission)
            return nil
        } catch { return error.reason }
    }

    public func authorize(
        _ submission: Submission, before deadline: ContinuousClock.Instant, late: @escaping LateOutcome
    ) async -> SubmissionOutcome {
        guard ContinuousClock.now.duration(to: deadline) >= leastTime else { return .notSent(.tooLate) }
        guard let request = try? RadialRequest(submission) else { return .notSent(.notWritten) }
        return await exchange.submit(
            to: request.path, contentType: "text/xml", body: request.document, before: deadline, late: late
        ) { Self.outcome($0, of: submission) }
    }

    /// Returns the result of the payment if the answer proves one. Otherwise the payment is not sent again, and a
    /// person must ask Radial for the result.
    ///
    /// A reply with an account number instead of an account token is discarded with all its values. The outcome is then
    /// unknown and not `error`: the bank may have authorized the payment, and after `error` the merchant would ask the
    /// customer to pay again. The outcome is unknown even if the codes say *declined*, because a reply that contradicts
    /// Radial's documentation proves nothing. An unnecessary check by a person costs less than a second payment.
    private static func outcome(_ answer: ExchangeAnswer, of submission: Submission) -> SubmissionOutcome {
        let document: RadialReply
        do {
            document = try RadialReply(parsing: answer.body)
        } catch {
            return .unknown(
                error.reason == .accountNumberNotTokenized ? .accountNumberNotTokenized : .answerNotUnderstood)
        }
        switch document {
        // A Fault means either that the request was not processed or that it timed out. Its codes do not distinguish
        // the two.
        case .fault(let fault): return pending(reason: fault.code ?? "Fault")
        case .reply(let reply):
            guard answer.status == 200, reply.orderId == submission.orderId else {
                return .unknown(.answerNotUnderstood)
            }
            guard !has(submission.credential.accountNumber, reply.accountToken),
                !has(submission.credential.accountNumber, reply.bankAuthorizationCode),
                !AccountNumberForm.isIn(reply.bankAuthorizationCode, separatedBy: .nonLetters)
            else {
                return .unknown(.accountNumberNotTokenized)
            }
            return outcome(reply, of: submission)
        }
    }

    private static func outcome(_ reply: CreditCardAuthReply, of submission: Submission) -> SubmissionOutcome {
        let codes = ReplyCodes(reply).text
        let bankCode = reply.bankAuthorizationCode.isEmpty ? nil : reply.bankAuthorizationCode
        // A merchant needs Radial's account token to capture or cancel a payment, so it is stored as the processor's
        // reference.
        let token = reply.accountToken
        switch reply.outcome {
        case .approved:
            guard reply.amountAuthorized == submission.amount else {
                let amount = reply.amountAuthorized
                return pending(
                    reason: "amount_differs: \(amount.currency.letters) \(amount.decimal); \(codes)",
                    bankCode: bankCode, token: token)
            }
            return .answered(
                ProcessorAnswer(
                    .authorized,
                    PaymentOutcome(
                        reason: codes, authorizationCode: bankCode, processorReference: token, processedAt: Date())))
        case .declined:
            return .answered(
                ProcessorAnswer(
                    .declined, PaymentOutcome(reason: codes, processorReference: token, processedAt: Date())))
        case .timeout, .other: return pending(reason: codes, bankCode: bankCode, token: token)
        }
    }

    /// Returns true if the text contains the account number, even with separators between its digits.
    private static func has(_ accountNumber: borrowing SecretBytes, _ text: String) -> Bool {
        let number = unsafe accountNumber.withUnsafeBytes { unsafe Array($0) }
        return text.utf8.filter { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }.contains(number)
    }

    private static func pending(reason: String, bankCode: String? = nil, token: String? = nil) -> SubmissionOutcome {
        .answered(
            ProcessorAnswer(
                .pending,
                PaymentOutcome(reason: reason, authorizationCode: bankCode, processorReference: token)))
    }
}

/// The XML document of one submission, and the path to which it is sent.
private struct RadialRequest: ~Copyable {
    let path: String
    let document: SecretBytes

    /// The reason why the document cannot be created, in words without values of the submission.
    struct Objection: Error {
        let reason: String
    }

    init(_ submission: Submission) throws(Objection) {
        let credential = submission.credential
        guard case .threeDSecure(let proof) = credential.proof else { throw Objection(reason: "no 3-D Secure data") }
        guard let tender = TenderType(accountNumber: credential.accountNumber) else {
            throw Objection(reason: "a card that is neither of Visa, nor Mastercard, nor American Express")
        }
        guard let amount = submission.amount else { throw Objection(reason: "no amount") }
        let expiration = credential.expirationDate
        do {
            // The same payment always has the same requestId, so that Radial recognises a repeated request.
            let message = try CreditCardAuthMessage(
                requestId: String(submission.transactionId.prefix(40)),
                OrderDetails(submission.customer, orderId: submission.orderId))
            document = try message.document(
                amount: amount, accountNumber: credential.accountNumber,
                expirationDate: expiration.year + expiration.month + expiration.day, cryptogram: proof.cryptogram,
                eciIndicator: proof.eciIndicator)
        } catch let error as UnsuitableOrder {
            throw Objection(reason: error.description)
        } catch let error as CreditCardAuthMessage.PaymentDataError {
            throw Objection(reason: error.objection)
        } catch {
            throw Objection(reason: "no document")
        }
        path = "/" + tender.authorizationPath
    }
}

extension CreditCardAuthMessage.PaymentDataError {
    fileprivate var objection: String {
        switch self {
        case .accountNumber: "an account number that is not 12 to 19 digits"
        case .unknownTender: "a card that is neither of Visa, nor Mastercard, nor American Express"
        case .expirationDate: "an expiration date that is not six digits"
        case .cryptogram: "a cryptogram that is not base64, or too long"
        case .eciIndicator: "an eciIndicator that is not one or two digits"
        case .currency: "a currency of more than two decimals"
        case .amount: "an amount of zero"
        }
    }
}
