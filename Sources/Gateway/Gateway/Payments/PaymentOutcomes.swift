import Foundation
import Logging
import Payments
import Processors

extension PaymentFlow {
    /// Counts and logs a submitted payment whose outcome is unknown.
    ///
    /// - Parameter metricReason: the value of the metric's label `reason`, either the raw value of an ``ExchangeFault``
    ///   or `answered_pending`.
    func reportUnknownOutcome(
        of transaction: PaymentTransaction, metricReason: String, reason: String, _ level: Logger.Level
    ) {
        metrics.countUnknownOutcome(reason: metricReason)
        logger.log(
            level: level, "a payment's outcome is unknown; it is not sent again",
            metadata: [
                "transaction.id": "\(transaction.name)", "processor": "\(transaction.processor ?? "")",
                "reason": "\(reason)",
            ])
    }

    /// Stores the result that a processor reported, after masking the card's account number in its texts.
    func storeOutcome(
        _ payment: Payment, _ answer: ProcessorAnswer, _ transaction: PaymentTransaction,
        _ credential: PaymentCredential
    ) async -> Payment {
        let outcome = answer.outcome.masked(credential.accountNumber)
        logger.warnOfMaskedDigits(outcome, of: transaction)
        return await storeOutcome(payment, as: answer.state, outcome)
    }

    /// Stores the payment's new state and returns the stored payment. If the store fails, returns the payment as
    /// `pending`. The gateway then stores the state later (``UnstoredChanges``), or asks the processor about the
    /// payment.
    func storeOutcome(_ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome) async -> Payment {
        do throws(PaymentStoreError) {
            let stored = try await store.storeOutcome(payment, as: state, outcome, at: Date())
            logger.logContradiction(stored, by: state)
            return stored
        } catch {
            reportStoreFailure(error)
            if !error.isAboutPayment { unstoredChanges.add(payment, as: state, outcome) }
            logger.error(
                "a payment's outcome could not be stored; it counts as pending",
                metadata: ["transaction.id": "\(payment.transaction?.name ?? "")", "state": "\(state.rawValue)"])
            var pending = payment
            pending.state = .pending
            return pending
        }
    }

    /// Stores the end of an attempt that certainly sent nothing. If the store fails, tries again twice.
    /// ``UnstoredChanges`` then keeps the change, unless the error concerns only this payment.
    ///
    /// - Returns: the payment with the state `pending`, if the upkeep of a gateway has already stored this state
    ///   because it considered the attempt abandoned; otherwise nil.
    @discardableResult
    func endAttempt(_ payment: Payment, as state: PaymentState, _ reason: String) async -> Payment? {
        for isLast in [false, false, true] {
            do throws(PaymentStoreError) {
                _ = try await store.end(payment, as: state, PaymentOutcome(reason: reason), at: Date())
                return nil
            } catch {
                if case .superseded(let state) = error {
                    guard state == .pending else { return nil }
                    var pending = payment
                    pending.state = .pending
                    return pending
                }
                reportStoreFailure(error)
                guard isLast else {
                    try? await Task.sleep(for: .milliseconds(200))
                    continue
                }
                if !error.isAboutPayment { unstoredChanges.add(payment, as: state, PaymentOutcome(reason: reason)) }
            }
        }
        return nil
    }
}
