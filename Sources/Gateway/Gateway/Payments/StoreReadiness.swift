import Locks
import Payments

/// The store's readiness for `GET /readyz`. A fault immediately makes the gateway not ready. Once the store accepts
/// changes again (`PaymentStore.probe`), the gateway is ready.
final class StoreReadiness: Sendable {
    private struct State {
        var fault: PaymentStoreError?
        /// The time of the last successful use.
        var worked: ContinuousClock.Instant?
    }

    private let state = Mutex(State())
    /// The time without use after which the store is probed. A disk that fills up overnight is thus noticed before the
    /// first payment.
    private static let interval = Duration.seconds(10)

    /// Records a failed use of the store.
    ///
    /// - Parameter error: the store's error. An error about a single payment is not a fault of the store.
    func failed(_ error: PaymentStoreError) {
        if !error.isAboutPayment { state.withLock { $0.fault = error } }
    }

    /// Probes the store if its last use failed, or if it has not been used for a while.
    func probeIfDue(_ store: any PaymentStore) async throws(PaymentStoreError) {
        let isDue = state.withLock { $0.fault != nil || $0.worked.map { $0 + Self.interval <= .now } ?? true }
        guard isDue else { return }
        try await store.probe()
        state.withLock { $0 = State(worked: .now) }
    }

    var fault: PaymentStoreError? { state.withLock { $0.fault } }
}

extension PaymentStoreError {
    /// Returns true if the store works and the error is about one payment.
    var isAboutPayment: Bool {
        switch self {
        case .superseded, .notFound, .damaged: true
        case .unavailable, .inDoubt, .overloaded: false
        }
    }
}
