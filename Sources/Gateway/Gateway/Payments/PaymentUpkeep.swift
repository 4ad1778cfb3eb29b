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
/// - The questions to processors. One ``PendingPaymentQuestions`` asks each processor that can report results for the
///   results of its pending payments.
///
/// Neither part sends a payment.
final class PaymentUpkeep: Sendable {
    private let store: any PaymentStore
    private let metrics: PaymentMetrics
    private let readiness: StoreReadiness
    private let unstoredChanges: UnstoredChanges
    private let logger: Logger
    /// One element for each processor that can report the result of a payment.
    private let processorQuestions: [PendingPaymentQuestions]
    /// The number of pending payments, as the store last reported it.
    private let pendingCount = Atomic(0)
    /// The number of payments that the store cannot read, as of the last round. An increase is logged.
    private let unreadableCount = Atomic(0)

    static let pauseBetweenRounds = Duration.seconds(1)

    init(
        _ store: any PaymentStore, _ processors: ProcessorDirectory, _ metrics: PaymentMetrics,
        _ readiness: StoreReadiness, _ unstoredChanges: UnstoredChanges, _ logger: Logger,
        accountNumberKey: AccountNumberKey? = nil
    ) {
        self.store = store
        self.metrics = metrics
        self.readiness = readiness
        self.unstoredChanges = unstoredChanges
        self.logger = logger
        processorQuestions = processors.processors.compactMap {
            PendingPaymentQuestions(to: $0, store, metrics, accountNumberKey, logger)
        }
    }

    /// Runs both parts until the task is cancelled. The store's upkeep never waits for a processor, and no processor's
    /// round waits for another processor.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.runRepeatedly { await self.runStoreRound(at: $0) } }
            for questions in processorQuestions {
                group.addTask { await self.runRepeatedly { await self.runRound(of: questions, at: $0) } }
            }
        }
    }

    private func runRepeatedly(_ body: (Date) async -> Void) async {
        while !Task.isCancelled {
            await body(Date())
            try? await Task.sleep(for: Self.pauseBetweenRounds)
        }
    }

    /// Runs one round of the store's upkeep. The round begins with a probe of the store if a probe is due. If the probe
    /// fails, the round ends.
    func runStoreRound(at now: Date) async {
        do throws(PaymentStoreError) {
            try await readiness.probeIfDue(store)
            await storeUnstoredChanges()
            let count = try await store.takeOverAbandoned(at: now)
            if count > 0 {
                logger.warning(
                    "payments were being submitted when their gateway stopped; their outcome is unknown",
                    metadata: ["count": "\(count)"])
            }
            let pending = try await store.pending()
            pendingCount.store(pending.count, ordering: .relaxed)
            let unreadable = store.unreadablePayments
            metrics.updatePendingPayments(pending, unreadable: unreadable, at: now)
            if unreadable > unreadableCount.exchange(unreadable, ordering: .relaxed) {
                logger.error(
                    "payments are skipped, because their rows have values that this version does not know; run the newest version",
                    metadata: ["count": "\(unreadable)"])
            }
        } catch { return reportStoreFailure(error) }
        await removeOldPayments()
    }

    /// Removes payments that cannot have a result and have not changed for ``Payment/retention``. A failure is only
    /// logged, so the gateway stays ready.
    private func removeOldPayments() async {
        do throws(PaymentStoreError) { metrics.countRemoved(try await store.prune()) } catch {
            logger.error("old payments cannot be removed; this is tried again", metadata: ["reason": "\(error)"])
        }
    }

    /// Runs one round of questions to every processor, concurrently. Only tests call this method; ``run()`` repeats the
    /// rounds of each processor separately.
    func askProcessors(at now: Date) async {
        await withTaskGroup(of: Void.self) { group in
            for questions in processorQuestions { group.addTask { await self.runRound(of: questions, at: now) } }
        }
    }

    private func runRound(of questions: PendingPaymentQuestions, at now: Date) async {
        // While the store fails, a result could not be stored, so no question is asked. ``runStoreRound(at:)`` probes
        // the store until it works again.
        guard pendingCount.load(ordering: .relaxed) > 0, readiness.fault == nil else { return }
        do throws(PaymentStoreError) { try await questions.runRound(at: now) } catch { reportStoreFailure(error) }
    }

    private func reportStoreFailure(_ error: PaymentStoreError) {
        readiness.recordFailure(error)
        logger.error("the store of payments failed", metadata: ["reason": "\(error)"])
    }

    /// Stores changes that could not be stored when they were made. A stopping gateway calls this method once more
    /// before it closes the store.
    func storeUnstoredChanges() async {
        let count = await unstoredChanges.storeAll(in: store, logger)
        if count > 0 {
            logger.notice(
                "the outcomes of payments while the store was unavailable are stored now",
                metadata: ["count": "\(count)"])
        }
    }
}
