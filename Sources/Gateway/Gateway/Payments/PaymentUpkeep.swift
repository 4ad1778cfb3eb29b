import Foundation
import Locks
import Logging
import Payments
import Processors

/// The background work for payments. It has two parts, which run concurrently:
///
/// - The store's upkeep probes the store, and stores changes that could not be stored earlier. It makes the payments of
///   stopped gateways pending, updates the metric of pending payments, and removes old payments that have no
///   transaction.
///
/// - ``PendingQuestions`` asks each processor that can report results about its pending payments.
///
/// Neither part sends a payment.
final class PaymentUpkeep: Sendable {
    private let store: any PaymentStore
    private let metrics: PaymentMetrics
    private let readiness: StoreReadiness
    private let unstored: UnstoredChanges
    private let logger: Logger
    /// The questions to each processor that can report the result of its payments.
    private let questions: [PendingQuestions]
    /// The number of pending payments, as the store last reported it.
    private let pendingCount = Atomic(0)
    private let unreadableCount = Atomic(0)

    static let interval = Duration.seconds(1)

    init(
        _ store: any PaymentStore, _ processors: ProcessorDirectory, _ metrics: PaymentMetrics,
        _ readiness: StoreReadiness, _ unstored: UnstoredChanges, _ logger: Logger,
        accountNumbers: AccountNumberKey? = nil
    ) {
        self.store = store
        self.metrics = metrics
        self.readiness = readiness
        self.unstored = unstored
        self.logger = logger
        questions = processors.processors.compactMap {
            PendingQuestions(to: $0, store, metrics, accountNumbers, logger)
        }
    }

    /// Runs until its task is cancelled. The store's upkeep never waits for a processor, nor does one processor's round
    /// wait for another's.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.runRepeatedly { await self.runRound(at: $0) } }
            for questions in questions {
                group.addTask { await self.runRepeatedly { await self.ask(questions, at: $0) } }
            }
        }
    }

    private func runRepeatedly(_ body: (Date) async -> Void) async {
        while !Task.isCancelled {
            await body(Date())
            try? await Task.sleep(for: Self.interval)
        }
    }

    /// Runs one round of the store's upkeep. The round begins with a probe of the store if a probe is due. If the probe
    /// fails, the round ends.
    func runRound(at now: Date) async {
        do throws(PaymentStoreError) {
            try await readiness.probeIfDue(store)
            await storeChanges()
            let count = try await store.takeOverAbandoned(at: now)
            if count > 0 {
                logger.warning(
                    "payments were being submitted when their gateway stopped; their outcome is unknown",
                    metadata: ["count": "\(count)"])
            }
            let pending = try await store.pending()
            pendingCount.store(pending.count, ordering: .relaxed)
            let unreadable = store.unreadablePayments
            metrics.show(pending, unreadable: unreadable, at: now)
            if unreadable > unreadableCount.exchange(unreadable, ordering: .relaxed) {
                logger.error(
                    "payments are skipped, because their rows have values that this version does not know; run the newest version",
                    metadata: ["count": "\(unreadable)"])
            }
        } catch { return failed(error) }
        await prune()
    }

    /// Removes payments that cannot have a result and have not changed for ``Payment/retention``. A failure is only
    /// logged, so the gateway stays ready.
    private func prune() async {
        do throws(PaymentStoreError) { metrics.pruned(try await store.prune()) } catch {
            logger.error("old payments cannot be removed; this is tried again", metadata: ["reason": "\(error)"])
        }
    }

    /// Runs one round of questions to every processor, concurrently. Only tests call this method, since ``run()``
    /// repeats the rounds of each processor separately.
    func ask(at now: Date) async {
        await withTaskGroup(of: Void.self) { group in
            for questions in questions { group.addTask { await self.ask(questions, at: now) } }
        }
    }

    private func ask(_ questions: PendingQuestions, at now: Date) async {
        // While the store fails, a result could not be stored, so no question is asked. ``runRound(at:)`` probes the
        // store until it works again.
        guard pendingCount.load(ordering: .relaxed) > 0, readiness.fault == nil else { return }
        do throws(PaymentStoreError) { try await questions.runRound(at: now) } catch { failed(error) }
    }

    private func failed(_ error: PaymentStoreError) {
        readiness.failed(error)
        logger.error("the store of payments failed", metadata: ["reason": "\(error)"])
    }

    /// Stores changes that could not be stored when they were made. A stopping gateway calls this method a last time.
    func storeChanges() async {
        let count = await unstored.store(in: store, logger)
        if count > 0 {
            logger.notice(
                "the outcomes of payments while the store was unavailable are stored now",
                metadata: ["count": "\(count)"])
        }
    }
}
