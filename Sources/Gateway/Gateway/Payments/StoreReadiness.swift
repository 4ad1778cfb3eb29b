import Locks
import Payments

/// The store's readiness for `GET /readyz`. A fault of the store immediately makes the gateway not ready. After a
/// successful `PaymentStore.probe`, which checks that the store accepts changes, the gateway is ready again.
final class StoreReadiness: Sendable {
    private struct State {
        var fault: PaymentStoreError?
        /// The time of the last successful probe; nil before the first.
        var worked: ContinuousClock.Instant?
    }

    private let state = Mutex(State())
    /// The time between two probes of a store without a fault. Without these probes, the first payment of the morning
    /// would fail after a night in which the disk filled up.
    private static let interval = Duration.seconds(10)

    /// Records a failed use of the store.
    ///
    /// - Parameter error: the store's error. An error about a single payment is not a fault of the store.
    func failed(_ error: PaymentStoreError) {
        if !error.isAboutPayment { state.withLock { $0.fault = error } }
    }

    /// Probes the store if a use of it has failed, or if the last successful probe was `interval` ago. Throws the
    /// error of a failed probe.
    func probeIfDue(_ store: any PaymentStore) async throws(PaymentStoreError) {
        let isDue = state.withLock { $0.fault != nil || $0.worked.map { $0 + Self.interval <= .now } ?? true }
        guard isDue else { return }
        try await store.probe()
        state.withLock { $0 = State(worked: .now) }
    }

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
