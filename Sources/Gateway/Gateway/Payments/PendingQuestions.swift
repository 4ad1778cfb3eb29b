import Foundation
import Logging
import Payments
import Processors
import Synchronization

/// Questions to one processor about what became of its pending payments.
///
/// Every processor has rounds of its own, of a bounded number of questions, and one that is silent is asked less and less: so it
/// delays neither other processors' payments nor the store's upkeep.
final class PendingQuestions: Sendable {
    let processorName: String
    private let processor: any Processor
    private let store: any PaymentStore
    private let metrics: PaymentMetrics
    private let accountNumbers: AccountNumberKey?
    private let logger: Logger
    private let state = Mutex(State())

    /// Pending payments are gone through in pages, the oldest first, and then again from the beginning: of very many that the
    /// processor does not know, none keeps the others from being asked about.
    private struct State {
        /// When a payment is to be asked about next; a payment that is not in it was just found.
        var due: [Payment.Key: Date] = [:]
        /// Those found since the beginning.
        var found: Set<Payment.Key> = []
        /// After which the next page begins.
        var place: PaymentFilter.Place?
        /// Rounds in a row in which the processor answered no question.
        var silentRounds = 0
        /// No round begins before.
        var pausesUntil = Date.distantPast

        /// Those of a page that are due: of a processor that was silent last time only one.
        mutating func take(_ page: [Payment], at now: Date) -> [Payment] {
            found.formUnion(page.map(\.key))
            let chosen = page.filter { (due[$0.key] ?? .distantPast) <= now }
                .prefix(silentRounds == 0 ? PendingQuestions.most : 1)
            // Again after as long as it has been pending by then: once a second at first, once an hour at last.
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

        /// - Returns: whether the processor has just fallen silent.
        mutating func asked(_ count: Int, answered: Int, at now: Date) -> Bool {
            guard count > 0 else { return false }
            silentRounds = answered > 0 ? 0 : silentRounds + 1
            guard silentRounds > 0 else { return false }
            let pause = min(pow(2, Double(silentRounds - 1)), PendingQuestions.longestPause)
            pausesUntil = now.addingTimeInterval(pause)
            return silentRounds == 1
        }
    }

    /// Of one round.
    static let most = 100
    /// Of a page.
    private static let mostFound = 1000
    /// For one question.
    private static let timeout = Duration.seconds(5)
    /// Between two rounds of a processor that stays silent, in seconds.
    private static let longestPause = 60.0

    /// Nil where the processor tells nothing of its payments.
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

    /// Asks about those that are due among the next page of the processor's pending payments, all at once.
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

    /// - Returns: whether the processor answered.
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
                    "the processor told what became of a payment",
                    metadata: ["transaction.id": "\(transaction.name)", "state": "\(answer.state.rawValue)"])
            } catch {
                if case .superseded = error { break }
                logger.error("the store of payments failed", metadata: ["reason": "\(error)"])
            }
        }
        return true
    }
}
