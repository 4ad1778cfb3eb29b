import Foundation
import Logging
import Payments
import Processors

extension PaymentFlow {
    /// Counts and logs a submitted payment whose outcome is unknown.
    ///
    /// - Parameter metric: the value of the metric's label `reason`: the raw value of an ``ExchangeFault``, or
    ///   `answered_pending`.
    func noteUnknownOutcome(
        of transaction: PaymentTransaction, metric: String, reason: String, _ level: Logger.Level
    ) {
        metrics.submittedInDoubt(metric)
        logger.log(
            level: level, "a payment's outcome is unknown; it is not sent again",
            metadata: [
                "transaction.id": "\(transaction.name)", "processor": "\(transaction.processor ?? "")",
                "reason": "\(reason)",
            ])
    }

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
            let settled = try await store.storeOutcome(payment, as: state, outcome, at: Date())
            logger.logContradiction(settled, by: state)
            return settled
        } catch {
            reportStoreFailure(error)
            if !error.isAboutPayment { unstored.add(payment, as: state, outcome) }
            logger.error(
                "a payment's outcome could not be stored; it counts as pending",
                metadata: ["transaction.id": "\(payment.transaction?.name ?? "")", "state": "\(state.rawValue)"])
            var pending = payment
            pending.state = .pending
            return pending
        }
    }

    /// Ends an attempt that certainly sent nothing. If the store fails, tries three times in total, and then leaves the
    /// change to ``UnstoredChanges``.
    ///
    /// - Returns: the payment as `pending` if a gateway's upkeep has already made the payment pending, because it
    ///   considered the attempt abandoned; otherwise nil.
    @discardableResult
    func end(_ payment: Payment, as state: PaymentState, _ reason: String) async -> Payment? {
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
                if !error.isAboutPayment { unstored.add(payment, as: state, PaymentOutcome(reason: reason)) }
            }
        }
        return nil
    }
}
