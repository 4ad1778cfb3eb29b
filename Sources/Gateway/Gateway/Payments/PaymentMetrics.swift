import Foundation
import KeyTypes
import Logging
import Payments
import Processors
import Telemetry

/// The gateway's Prometheus metrics of payments. Each label has values from a closed list, so the number of series does
/// not grow with the number of payments.
struct PaymentMetrics: Sendable {
    /// The label `wallet` is a raw value of `Wallet`. The label `outcome` is the payment's state in the response, or the
    /// code of the refusal.
    private let answeredPayments = Counter(
        "paytoken_gateway_payments_total", help: "Requested payments, by wallet and outcome.",
        labels: ["wallet", "outcome"])
    private let paymentSeconds = Histogram(
        "paytoken_gateway_payment_seconds", help: "Time from a payment's request to its outcome.",
        bounds: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60])
    /// The label `reason` is the raw value of an ``ExchangeFault``, or `answered_pending` if the processor reported the
    /// payment as pending.
    private let unknownOutcomes = Counter(
        "paytoken_gateway_submissions_in_doubt_total",
        help: "Submissions after which the payment's outcome was unknown, by reason.", labels: ["reason"])
    private let pendingPayments = Gauge(
        "paytoken_gateway_pending_payments", help: "Payments with an unknown outcome.")
    private let oldestPendingSeconds = Gauge(
        "paytoken_gateway_oldest_pending_payment_seconds",
        help: "The age of the oldest payment with an unknown outcome; 0 if there is none.")
    private let unreadablePayments = Gauge(
        "paytoken_gateway_unreadable_payments",
        help: "Payments that the gateway skips because their rows hold what this version does not know.")
    /// The label `outcome` is the state that the processor reported, `no_trace` if the processor does not know the
    /// payment, or `not_answered`.
    private let questions = Counter(
        "paytoken_gateway_processor_questions_total", help: "Questions to processors about pending payments.",
        labels: ["outcome"])

    private let removedPayments = Counter(
        "paytoken_gateway_pruned_payments_total",
        help: "Payments removed from the store seven days after they ended without a transaction.", labels: [])

    /// Creates the series of ``ExchangeFault/accountNumberNotTokenized``, on which an alert is defined, with the value
    /// 0. Prometheus' `increase` does not count a series' first value, so the alert would otherwise miss the first such
    /// fault.
    init() { unknownOutcomes.increment([ExchangeFault.accountNumberNotTokenized.rawValue], by: 0) }

    func recordResponse(_ wallet: Wallet, outcome: String, after duration: Duration) {
        answeredPayments.increment([wallet.rawValue, outcome])
        paymentSeconds.observe(duration)
    }

    func updatePendingPayments(_ pending: PendingPayments, unreadable: Int, at now: Date) {
        unreadablePayments.set(to: Double(unreadable))
        pendingPayments.set(to: Double(pending.count))
        oldestPendingSeconds.set(to: max(0, pending.oldest.map { now.timeIntervalSince($0) } ?? 0).rounded())
    }

    /// Counts a submitted payment whose outcome is unknown.
    ///
    /// - Parameter reason: the raw value of an ``ExchangeFault``, or `answered_pending`.
    func countUnknownOutcome(reason: String) { unknownOutcomes.increment([reason]) }

    func countRemoved(_ count: Int) { if count > 0 { removedPayments.increment([], by: UInt64(count)) } }

    func countQuestion(_ outcome: String) { questions.increment([outcome]) }
}

extension Logger {
    /// Logs a warning if a processor's texts contained digits that look like an account number. The warning lists the
    /// names of these texts, and never contains the digits.
    func warnOfMaskedDigits(_ outcome: PaymentOutcome, of transaction: PaymentTransaction) {
        let texts = outcome.maskedTexts
        guard !texts.isEmpty else { return }
        warning(
            "a processor's answer had digits in it that look like an account number; they are masked",
            metadata: [
                "transaction.id": "\(transaction.name)", "processor": "\(transaction.processor ?? "")",
                "texts": "\(texts.joined(separator: ", "))",
            ])
    }

    /// Logs an error if a processor's response contradicts the payment's stored result. The stored result may come from
    /// a person or from an earlier response.
    func logContradiction(_ payment: Payment, by answered: PaymentState) {
        guard answered != .pending, payment.state != answered else { return }
        error(
            "a processor's answer contradicts the stored status, which stays; ask the processor which is right, and correct the order where the status is wrong (paytoken-gateway payment show)",
            metadata: [
                "transaction.id": "\(payment.transaction?.name ?? "")",
                "processor": "\(payment.transaction?.processor ?? "")", "status": "\(payment.state.rawValue)",
                "answer": "\(answered.rawValue)",
            ])
    }
}
