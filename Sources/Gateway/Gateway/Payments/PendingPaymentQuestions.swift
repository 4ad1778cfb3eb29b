import Foundation
import Locks
import Logging
import Payments
import Processors

/// Asks one processor for the results of its pending payments, in rounds with a bounded number of questions.
///
/// Each processor has its own instance. A processor that does not respond is asked less and less often. It therefore
/// delays neither other processors' payments nor the store's upkeep.
final class PendingPaymentQuestions: Sendable {
    let processorName: String
    private let processor: any Processor
    private let store: any PaymentStore
    private let metrics: PaymentMetrics
    private let accountNumberKey: AccountNumberKey?
    private let logger: Logger
    private let state = Mutex(State())

    /// The progress through the list of pending payments. Each round reads one page of the list, oldest payments first.
    /// The round after the last page begins a new pass with the oldest payments. Each pass thus reaches the newest
    /// payments, even if many older ones stay pending because the processor has no record of them.
    private struct State {
        /// The time of the next question about each payment. A payment without an entry has not been asked about yet,
        /// and is due.
        var nextQuestionTimes: [Payment.Key: Date] = [:]
        /// The payments on the pages of the current pass. At the end of the pass, the entries of all other payments are
        /// removed from ``nextQuestionTimes``, because these payments are no longer pending.
        var foundInPass: Set<Payment.Key> = []
        /// The end of the last page that was read; nil at the beginning of a pass.
        var lastPageEnd: PaymentFilter.Place?
        /// The number of consecutive rounds in which the processor answered no question.
        var unansweredRounds = 0
        /// The time before which no round begins.
        var pauseEnd = Date.distantPast

        /// Returns the payments of a page about which a question is due, and sets the times of the next questions about
        /// them. Returns at most ``maximumPerRound`` payments, or one if the processor answered no question in the last
        /// round.
        mutating func selectDue(from page: [Payment], at now: Date) -> [Payment] {
            foundInPass.formUnion(page.map(\.key))
            let chosen = page.filter { (nextQuestionTimes[$0.key] ?? .distantPast) <= now }
                .prefix(unansweredRounds == 0 ? PendingPaymentQuestions.maximumPerRound : 1)
            // The interval until the next question equals the time that the payment has been pending, from one second
            // to one hour.
            for payment in chosen {
                let age = now.timeIntervalSince(payment.changedAt)
                nextQuestionTimes[payment.key] = now.addingTimeInterval(min(max(age, 1), 3600))
            }
            return Array(chosen)
        }

        /// Moves to the page after `page`. If `page` is the last one, ends the pass.
        mutating func advance(past page: [Payment], isLast: Bool) {
            guard isLast else {
                lastPageEnd = page.last.map { PaymentFilter.Place(of: $0) }
                return
            }
            nextQuestionTimes = nextQuestionTimes.filter { foundInPass.contains($0.key) }
            (foundInPass, lastPageEnd) = ([], nil)
        }

        /// Counts a round of `count` questions, and begins a pause if none was answered.
        ///
        /// - Returns: true if the processor has just stopped responding.
        mutating func recordRound(questions count: Int, answered: Int, at now: Date) -> Bool {
            guard count > 0 else { return false }
            unansweredRounds = answered > 0 ? 0 : unansweredRounds + 1
            guard unansweredRounds > 0 else { return false }
            let pause = min(pow(2, Double(unansweredRounds - 1)), PendingPaymentQuestions.longestPause)
            pauseEnd = now.addingTimeInterval(pause)
            return unansweredRounds == 1
        }
    }

    /// The maximum number of questions in one round. All of them are asked at the same time, each on its own
    /// connection.
    static let maximumPerRound = 100
    /// The maximum number of payments in a page, which is also the highest ``PaymentFilter/limit``.
    private static let pageSize = 1000
    /// The time limit of one question.
    private static let timeout = Duration.seconds(5)
    /// The longest pause, in seconds, between two rounds for a processor that does not respond.
    private static let longestPause = 60.0

    /// Returns nil if the processor cannot report the result of a payment.
    init?(
        to configured: ConfiguredProcessor, _ store: any PaymentStore, _ metrics: PaymentMetrics,
        _ accountNumberKey: AccountNumberKey?, _ logger: Logger
    ) {
        guard configured.processor.capabilities.tellsStatus else { return nil }
        processorName = configured.name
        processor = configured.processor
        self.store = store
        self.metrics = metrics
        self.accountNumberKey = accountNumberKey
        self.logger = logger
    }

    /// Reads the next page of the processor's pending payments, and asks concurrently about those that are due. Does
    /// nothing during a pause.
    func runRound(at now: Date) async throws(PaymentStoreError) {
        guard state.withLock({ $0.pauseEnd <= now }) else { return }
        let page = try await store.payments(
            PaymentFilter(
                states: [.pending], processor: processorName, limit: Self.pageSize, oldestFirst: true,
                after: state.withLock { $0.lastPageEnd }))
        let due = state.withLock { $0.selectDue(from: page, at: now) }
        let answered = await withTaskGroup(of: Bool.self) { group in
            for payment in due { group.addTask { await self.ask(about: payment) } }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        let hasStoppedAnswering = state.withLock { state in
            state.advance(past: page, isLast: page.count < Self.pageSize)
            return state.recordRound(questions: due.count, answered: answered, at: now)
        }
        if hasStoppedAnswering {
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
            let outcome = accountNumberKey?.masked(answer.outcome, of: transaction) ?? answer.outcome
            logger.warnOfMaskedDigits(outcome, of: transaction)
            do throws(PaymentStoreError) {
                let stored = try await store.storeOutcome(payment, as: answer.state, outcome, at: Date())
                logger.logContradiction(stored, by: answer.state)
                guard stored.state == answer.state else { break }
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
