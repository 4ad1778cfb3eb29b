import Foundation
import Locks
import Logging
import Payments
import Processors

/// Questions to one processor about the result of its pending payments.
///
/// Each processor has its own rounds with a bounded number of questions, and a processor that does not respond is asked
/// less and less often. Such a processor therefore delays neither other processors' payments nor the store's upkeep.
final class PendingQuestions: Sendable {
    let processorName: String
    private let processor: any Processor
    private let store: any PaymentStore
    private let metrics: PaymentMetrics
    private let accountNumbers: AccountNumberKey?
    private let logger: Logger
    private let state = Mutex(State())

    /// The progress of the questions through the pending payments, which are read in pages, oldest first. After the
    /// last page, the next pass begins with the oldest payments. Each pass thus reaches the newest payments, even if
    /// many older ones stay pending because the processor has no record of them.
    private struct State {
        /// The time of the next question about each payment. A payment without an entry has not been asked about yet.
        var due: [Payment.Key: Date] = [:]
        /// The payments found in the current pass. At its end, the payments in ``due`` that are not among them are
        /// removed.
        var found: Set<Payment.Key> = []
        /// The position after which the next page begins.
        var position: PaymentFilter.Place?
        /// The number of consecutive rounds in which the processor answered no question.
        var silentRounds = 0
        /// The time before which no round begins.
        var pausesUntil = Date.distantPast

        /// Returns the payments of a page about which a question is due, and sets the times of the next questions about
        /// them. Returns at most one if the processor answered no question in the last round.
        mutating func take(_ page: [Payment], at now: Date) -> [Payment] {
            found.formUnion(page.map(\.key))
            let chosen = page.filter { (due[$0.key] ?? .distantPast) <= now }
                .prefix(silentRounds == 0 ? PendingQuestions.most : 1)
            // The interval until the next question equals the time that the payment has been pending, from one second
            // to one hour.
            for payment in chosen {
                let age = now.timeIntervalSince(payment.changedAt)
                due[payment.key] = now.addingTimeInterval(min(max(age, 1), 3600))
            }
            return Array(chosen)
        }

        mutating func end(_ page: [Payment], isLast: Bool) {
            guard isLast else {
                position = page.last.map { PaymentFilter.Place(of: $0) }
                return
            }
            due = due.filter { found.contains($0.key) }
            (found, position) = ([], nil)
        }

        /// Counts a round of `count` questions, and begins a pause if none was answered.
        ///
        /// - Returns: true if the processor has just stopped responding.
        mutating func recordRound(of count: Int, answered: Int, at now: Date) -> Bool {
            guard count > 0 else { return false }
            silentRounds = answered > 0 ? 0 : silentRounds + 1
            guard silentRounds > 0 else { return false }
            let pause = min(pow(2, Double(silentRounds - 1)), PendingQuestions.longestPause)
            pausesUntil = now.addingTimeInterval(pause)
            return silentRounds == 1
        }
    }

    /// The maximum number of questions in one round.
    static let most = 100
    /// The maximum number of payments in a page.
    private static let maximumFound = 1000
    /// The time limit of one question.
    private static let timeout = Duration.seconds(5)
    /// The longest pause, in seconds, between two rounds for a processor that does not respond.
    private static let longestPause = 60.0

    /// Returns nil if the processor cannot report the result of a payment.
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

    /// Asks concurrently about the payments that are due in the next page of the processor's pending payments.
    func runRound(at now: Date) async throws(PaymentStoreError) {
        guard state.withLock({ $0.pausesUntil <= now }) else { return }
        let page = try await store.payments(
            PaymentFilter(
                states: [.pending], processor: processorName, limit: Self.maximumFound, oldestFirst: true,
                after: state.withLock { $0.position }))
        let due = state.withLock { $0.take(page, at: now) }
        let answered = await withTaskGroup(of: Bool.self) { group in
            for payment in due { group.addTask { await self.ask(about: payment) } }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        let hasFallenSilent = state.withLock { state in
            state.end(page, isLast: page.count < Self.maximumFound)
            return state.recordRound(of: due.count, answered: answered, at: now)
        }
        if hasFallenSilent {
            logger.warning(
                "a processor answers no question about pending payments; it is asked less often until it does",
                metadata: ["processor": "\(processorName)", "questions": "\(due.count)"])
        }
    }

    /// Asks the processor about one payment, and stores the result if the processor reports one.
    ///
    /// - Returns: true if the processor answered.
    private func ask(about payment: Payment) async -> Bool {
        guard let transaction = payment.transaction else { return false }
        let submitted = SubmittedPayment(
            transactionId: transaction.name, amount: transaction.amount, orderId: payment.orderId,
            processorReference: payment.outcome?.processorReference)
        switch await processor.status(of: submitted, before: .now + Self.timeout) {
        case .noTrace: metrics.countQuestion("no_trace")
        case .notAnswered:
            metrics.countQuestion("not_answered")
            return false
        case .known(let answer):
            metrics.countQuestion(answer.state.rawValue)
            guard answer.state != .pending else { break }
            let outcome = accountNumbers?.masked(answer.outcome, of: transaction) ?? answer.outcome
            logger.warnOfMaskedDigits(outcome, of: transaction)
            do throws(PaymentStoreError) {
                let settled = try await store.storeOutcome(payment, as: answer.state, outcome, at: Date())
                logger.logContradiction(settled, by: answer.state)
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
