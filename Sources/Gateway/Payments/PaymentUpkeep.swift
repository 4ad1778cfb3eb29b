import Foundation
import Logging
import Payments
import Processors
import Synchronization

/// What goes on without a request: payments of gateways that stopped become pending, processors that can tell are asked about
/// pending ones, and metrics show how many wait.
///
/// It sends no payment.
final class PaymentUpkeep: Sendable {
    private let store: any PaymentStore
    private let processors: ProcessorDirectory
    private let metrics: PaymentMetrics
    private let readiness: StoreReadiness
    private let unstored: UnstoredChanges
    private let logger: Logger
    private let questions = Mutex(Questions())

    /// Pending payments are gone through in pages, the oldest first, and then again from the beginning: of very many that no
    /// processor knows, none stands in the way of the others.
    private struct Questions {
        /// When a payment is to be asked about next; a payment that is not in it was just found.
        var due: [Payment.Key: Date] = [:]
        /// Those found since the beginning.
        var found: Set<Payment.Key> = []
        /// Behind which the next page begins.
        var place: PaymentFilter.Place?

        mutating func end(_ page: [Payment], isLast: Bool) {
            guard isLast else {
                place = page.last.map { PaymentFilter.Place(of: $0) }
                return
            }
            due = due.filter { found.contains($0.key) }
            (found, place) = ([], nil)
        }
    }

    static let interval = Duration.seconds(1)
    /// Of a page.
    private static let mostFound = 1000
    /// For one question.
    private static let timeout = Duration.seconds(5)
    private static let mostQuestions = 100

    init(
        _ store: any PaymentStore, _ processors: ProcessorDirectory, _ metrics: PaymentMetrics,
        _ readiness: StoreReadiness, _ unstored: UnstoredChanges, _ logger: Logger
    ) {
        self.store = store
        self.processors = processors
        self.metrics = metrics
        self.readiness = readiness
        self.unstored = unstored
        self.logger = logger
    }

    /// Until its task is cancelled.
    func run() async {
        while !Task.isCancelled {
            await turn(at: Date())
            try? await Task.sleep(for: Self.interval)
        }
    }

    func turn(at now: Date) async {
        do throws(PaymentStoreError) {
            try await readiness.turn(store)
            await storeChanges()
            let count = try await store.takeOverAbandoned(at: now)
            if count > 0 {
                logger.warning(
                    "payments were being submitted when their gateway stopped; their fate is not known",
                    metadata: ["count": "\(count)"])
            }
            metrics.show(try await store.pending(), at: now)
            let page = try await store.payments(
                PaymentFilter(
                    states: [.pending], limit: Self.mostFound, oldestFirst: true,
                    after: questions.withLock { $0.place }))
            await ask(about: page, at: now)
            questions.withLock { $0.end(page, isLast: page.count < Self.mostFound) }
        } catch {
            readiness.failed(error)
            logger.error("the store of payments failed", metadata: ["reason": "\(error)"])
        }
    }

    /// What could not be stored when it happened; also at the end.
    func storeChanges() async {
        let count = await unstored.store(in: store)
        if count > 0 {
            logger.notice(
                "what became of payments while the store was away is stored now", metadata: ["count": "\(count)"])
        }
    }

    private func ask(about pending: [Payment], at now: Date) async {
        // Those that nobody can be asked about, of a processor that is gone say, must not stand in the way of the others.
        let askable = pending.compactMap { payment -> (payment: Payment, processor: any Processor)? in
            let name = payment.transaction?.processor
            guard let processor = name.flatMap({ processors.processor(named: $0) })?.processor,
                processor.capabilities.tellsStatus
            else { return nil }
            return (payment, processor)
        }
        let keys = Set(askable.map(\.payment.key))
        let dueNow = questions.withLock { questions in
            questions.found.formUnion(keys)
            return askable.filter { (questions.due[$0.payment.key] ?? .distantPast) <= now }.prefix(Self.mostQuestions)
        }
        await withTaskGroup(of: Void.self) { group in
            for (payment, processor) in dueNow {
                group.addTask { await self.ask(processor, about: payment, at: now) }
            }
        }
    }

    private func ask(_ processor: any Processor, about payment: Payment, at now: Date) async {
        guard let transaction = payment.transaction else { return }
        // Again after as long as it has been pending by then: once a second at first, once an hour at last.
        let age = now.timeIntervalSince(payment.changedAt)
        questions.withLock { $0.due[payment.key] = now.addingTimeInterval(min(max(age, 1), 3600)) }
        let submitted = SubmittedPayment(
            transactionId: transaction.name, amount: transaction.amount, orderId: payment.orderId,
            processorReference: payment.outcome?.processorReference)
        switch await processor.status(of: submitted, before: .now + Self.timeout) {
        case .noTrace: metrics.asked("no_trace")
        case .notAnswered: metrics.asked("not_answered")
        case .known(let answer):
            metrics.asked(answer.state.rawValue)
            guard answer.state != .pending else { return }
            do throws(PaymentStoreError) {
                _ = try await store.settle(payment, as: answer.state, answer.outcome, at: Date())
                logger.notice(
                    "the processor told what became of a payment",
                    metadata: ["transaction.id": "\(transaction.name)", "state": "\(answer.state.rawValue)"])
            } catch {
                if case .superseded = error { return }
                logger.error("the store of payments failed", metadata: ["reason": "\(error)"])
            }
        }
    }
}
