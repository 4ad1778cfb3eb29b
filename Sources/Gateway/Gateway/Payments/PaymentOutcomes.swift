import Foundation
import Logging
import Payments
import Processors

extension PaymentFlow {
    /// Counts and logs a submitted payment whose outcome is unknown.
    ///
    /// - Parameter metric: a reason from a closed list, for the metric's label.
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
    /// `pending`. The state is then stored later, or the processor is asked about the payment.
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

    /// Ends an attempt that certainly sent nothing. Tries a failing store three times, and once more when the store
    /// works again.
    ///
    /// - Returns: the payment as `pending` if another gateway or task has already treated the attempt as abandoned,
    ///   since the payment's result is then unknown; otherwise nil.
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
