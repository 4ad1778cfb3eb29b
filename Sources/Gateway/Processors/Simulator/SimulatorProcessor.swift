import Foundation
import Payments
import SecretMemory
import StrictJSON

// Unsafe: The secret's pointer is used only within the closure. The simulator's account numbers are not real.

/// Submits payments to the program `processor-simulator`, as JSON over HTTP. No money moves.
public struct SimulatorProcessor: Processor {
    public static let capabilities = ProcessorCapabilities(
        paymentData: [.threeDSecure, .emv], googlePay: [.cryptogram3DS, .panOnly], tellsStatus: true)
    public var capabilities: ProcessorCapabilities { Self.capabilities }
    private let exchange: ProcessorExchange

    public init(_ exchange: ProcessorExchange) { self.exchange = exchange }

    public func authorize(
        _ submission: Submission, before deadline: ContinuousClock.Instant, late: @escaping LateOutcome
    ) async -> SubmissionOutcome {
        let transactionId = submission.transactionId
        return await exchange.submit(
            to: "/authorizations", body: Self.body(submission), before: deadline, late: late
        ) { answer in
            Self.read(answer, of: transactionId).map { .answered($0) } ?? .unknown(.answerNotUnderstood)
        }
    }

    public func status(
        of payment: SubmittedPayment, before deadline: ContinuousClock.Instant
    ) async -> ProcessorStatus {
        let path = "/authorizations/\(payment.transactionId)"
        switch await exchange.get(path, before: deadline) {
        case .notSent(let fault), .unknown(let fault): return .notAnswered(fault.rawValue)
        case .answer(let answer):
            if answer.status == 404 { return .noTrace }
            guard let known = Self.read(answer, of: payment.transactionId) else {
                return .notAnswered(ExchangeFault.answerNotUnderstood.rawValue)
            }
            return .known(known)
        }
    }

    private static func body(_ submission: Submission) -> SecretBytes {
        var json = JSONWriter(capacity: 1024)
        json.beginObject()
        json.member("payment", submission.transactionId)
        json.member("wallet", submission.wallet.rawValue)
        json.member("merchantIdentifier", submission.merchantIdentifier)
        json.member("orderId", submission.orderId)
        json.member("amount", submission.amount?.decimal)
        json.member("currency", submission.amount?.currency.letters)
        json.member("minorUnits", submission.amount.map { Int($0.minorUnits) })
        let credential = submission.credential
        json.member("accountNumber", text(credential.accountNumber))
        let expiration = credential.expirationDate
        json.member("expirationDate", expiration.year + expiration.month + expiration.day)
        switch credential.proof {
        case .threeDSecure(let proof):
            json.member("cryptogram", text(proof.cryptogram))
            json.member("eciIndicator", proof.eciIndicator)
        case .emv(let proof): json.member("emvData", text(proof.data))
        case .absent: json.member("isCardNumberOnly", true)
        }
        json.endObject()
        return SecretBytes(copying: json.bytes)
    }

    private static func text(_ secret: borrowing SecretBytes) -> String {
        unsafe secret.withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
    }

    private static func read(_ answer: ExchangeAnswer, of transactionId: String) -> ProcessorAnswer? {
        guard answer.status == 200, let json = (try? JSONValue(parsing: answer.body))?.objectValue,
            json["payment"]?.stringValue == transactionId, let status = json["status"]?.stringValue,
            let state = PaymentState(rawValue: status),
            [.authorized, .captured, .declined, .error, .pending].contains(state)
        else { return nil }
        return ProcessorAnswer(
            state,
            PaymentOutcome(
                reason: json["reason"]?.stringValue, authorizationCode: json["authorizationCode"]?.stringValue,
                processorReference: json["reference"]?.stringValue, processedAt: state == .pending ? nil : Date()))
    }
}
