import Locks
import Payments

/// The store's readiness for `GET /readyz`. A fault of the store immediately makes the gateway not ready. The gateway
/// becomes ready again after a successful `PaymentStore.probe`, which checks that the store accepts changes.
final class StoreReadiness: Sendable {
    private struct State {
        var fault: PaymentStoreError?
        /// The time of the last successful probe; nil before the first.
        var lastSuccessfulProbe: ContinuousClock.Instant?
    }

    private let state = Mutex(State())
    /// The time between two probes of a store without a fault. Without these probes, the gateway would notice only at
    /// the next payment that the disk is full, and this payment would fail.
    private static let probeInterval = Duration.seconds(10)

    /// Records a failed use of the store.
    ///
    /// - Parameter error: the store's error. An error about a single payment is not a fault of the store.
    func recordFailure(_ error: PaymentStoreError) {
        if !error.isAboutPayment { state.withLock { $0.fault = error } }
    }

    /// Probes the store if a use of it has failed, or if the last successful probe was ``probeInterval`` ago. Throws
    /// the error of a failed probe.
    func probeIfDue(_ store: any PaymentStore) async throws(PaymentStoreError) {
        let isDue = state.withLock {
            $0.fault != nil || $0.lastSuccessfulProbe.map { $0 + Self.probeInterval <= .now } ?? true
        }
        guard isDue else { return }
        try await store.probe()
        state.withLock { $0 = State(lastSuccessfulProbe: .now) }
    }

    /// The last fault since the last successful probe; nil if there was none.
    var fault: PaymentStoreError? { state.withLock { $0.fault } }
}

extension PaymentStoreError {
    /// True if the error concerns only one payment and the store itself works.
    var isAboutPayment: Bool {
        switch self {
        case .superseded, .notFound, .damaged: true
        case .unavailable, .inDoubt, .overloaded: false
        }
    }
}
