import Foundation
import Logging
import Payments
import Processors
import Synchronization

/// Questions to one processor about the result of its pending payments.
///
/// Each processor has rounds of its own with a bounded number of questions, and a silent one is asked less and less
/// often. So it delays neither other processors' payments nor the store's upkeep.
final class PendingQuestions: Sendable {
    let processorName: String
    private let processor: any Processor
    private let store: any PaymentStore
    private let metrics: PaymentMetrics
    private let accountNumbers: AccountNumberKey?
    private let logger: Logger
    private let state = Mutex(State())

    /// The progress through the pending payments, in pages, the oldest first, and then again from the beginning. So
    /// very many payments that the processor does not know keep no others from being asked about.
    private struct State {
        /// The time of the next question about each payment; a payment without an entry was just found.
        var due: [Payment.Key: Date] = [:]
        /// The payments found since the beginning.
        var found: Set<Payment.Key> = []
        /// The place after which the next page begins.
        var place: PaymentFilter.Place?
        /// Rounds in a row in which the processor answered no question.
        var silentRounds = 0
        /// The time before which no round begins.
        var pausesUntil = Date.distantPast

        /// Returns the payments of a page that are due; only one if the processor was silent last time.
        mutating func take(_ page: [Payment], at now: Date) -> [Payment] {
            found.formUnion(page.map(\.key))
            let chosen = page.filter { (due[$0.key] ?? .distantPast) <= now }
                .prefix(silentRounds == 0 ? PendingQuestions.most : 1)
            // The next question comes after as long as it has been pending by then: after a second at first, after an
            // hour at last.
            for payment in chosen {
                let age = now.timeIntervalSince(payment.changedAt)
                due[payment.key] = now.addingTimeInterval(min(max(age, 1), 3600))
            }
            return Array(chosen)
        }

        mutating func end(_ page: [Payment], isLast: Bool) {
            guard isLast else {
                place = page.last.map { PaymentFilter.Place(of: $0) }
                return
            }
            due = due.filter { found.contains($0.key) }
            (found, place) = ([], nil)
        }

        /// - Returns: true if the processor has just fallen silent.
        mutating func asked(_ count: Int, answered: Int, at now: Date) -> Bool {
            guard count > 0 else { return false }
            silentRounds = answered > 0 ? 0 : silentRounds + 1
            guard silentRounds > 0 else { return false }
            let pause = min(pow(2, Double(silentRounds - 1)), PendingQuestions.longestPause)
            pausesUntil = now.addingTimeInterval(pause)
            return silentRounds == 1
        }
    }

    /// The number of questions in one round.
    static let most = 100
    /// The number of payments in a page.
    private static let mostFound = 1000
    /// The time limit of one question.
    private static let timeout = Duration.seconds(5)
    /// The longest pause between two rounds of a silent processor, in seconds.
    private static let longestPause = 60.0

    /// Returns nil if the processor cannot tell the result of a payment.
    init?(
        to configured: ConfiguredProcessor, _ store: any PaymentStore, _ metrics: PaymentMetrics,
        _ accountNumbers: AccountNumberKey?, _ logger: Logger
    ) {
        guard configured.processor.capabilities.tellsStatus else { return nil }
        processorName = configured.name
        processor = configured.processor
        self.store = store
        self.metrics = metrics
        self.accountNumbers = accountNumbers
        self.logger = logger
    }

    /// Asks, all at once, about the payments that are due in the next page of the processor's pending payments.
    func round(at now: Date) async throws(PaymentStoreError) {
        guard state.withLock({ $0.pausesUntil <= now }) else { return }
        let page = try await store.payments(
            PaymentFilter(
                states: [.pending], processor: processorName, limit: Self.mostFound, oldestFirst: true,
                after: state.withLock { $0.place }))
        let due = state.withLock { $0.take(page, at: now) }
        let answered = await withTaskGroup(of: Bool.self) { group in
            for payment in due { group.addTask { await self.ask(about: payment) } }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        let hasFallenSilent = state.withLock { state in
            state.end(page, isLast: page.count < Self.mostFound)
            return state.asked(due.count, answered: answered, at: now)
        }
        if hasFallenSilent {
            logger.warning(
                "a processor answers no question about pending payments; it is asked less often until it does",
                metadata: ["processor": "\(processorName)", "questions": "\(due.count)"])
        }
    }

    /// - Returns: true if the processor answered.
    private func ask(about payment: Payment) async -> Bool {
        guard let transaction = payment.transaction else { return false }
        let submitted = SubmittedPayment(
            transactionId: transaction.name, amount: transaction.amount, orderId: payment.orderId,
            processorReference: payment.outcome?.processorReference)
        switch await processor.status(of: submitted, before: .now + Self.timeout) {
        case .noTrace: metrics.asked("no_trace")
        case .notAnswered:
            metrics.asked("not_answered")
            return false
        case .known(let answer):
            metrics.asked(answer.state.rawValue)
            guard answer.state != .pending else { break }
            let outcome = accountNumbers?.masked(answer.outcome, of: transaction) ?? answer.outcome
            logger.noteMasked(outcome, of: transaction)
            do throws(PaymentStoreError) {
                let settled = try await store.settle(payment, as: answer.state, outcome, at: Date())
                logger.noteContradiction(settled, by: answer.state)
                guard settled.state == answer.state else { break }
                logger.notice(
                    "the processor reported the outcome of a payment",
                    metadata: ["transaction.id": "\(transaction.name)", "state": "\(answer.state.rawValue)"])
            } catch {
                if case .superseded = error { break }
                logger.error("the store of payments failed", metadata: ["reason": "\(error)"])
            }
        }
        return true
    }
}
