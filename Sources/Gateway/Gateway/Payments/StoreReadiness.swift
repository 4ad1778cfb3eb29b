import Payments
import Synchronization

/// Whether the store of payments took what it was last asked to do, for `GET /readyz`: a fault makes the gateway unready at once,
/// and a store that takes changes again (`PaymentStore.probe`) makes it ready.
final class StoreReadiness: Sendable {
    private struct State {
        var fault: PaymentStoreError?
        /// When it was last tried with success.
        var worked: ContinuousClock.Instant?
    }

    private let state = Mutex(State())
    /// A store that nobody has asked for so long is tried, so that a disk that fills up at night is seen before the first payment.
    private static let interval = Duration.seconds(10)

    /// - Parameter error: what the store said; what it says of one payment is no fault of its own.
    func failed(_ error: PaymentStoreError) {
        if !error.isOfPayment { state.withLock { $0.fault = error } }
    }

    /// Has the store tried where it failed last, or was not tried for a while.
    func turn(_ store: any PaymentStore) async throws(PaymentStoreError) {
        let isDue = state.withLock { $0.fault != nil || $0.worked.map { $0 + Self.interval <= .now } ?? true }
        guard isDue else { return }
        try await store.probe()
        state.withLock { $0 = State(worked: .now) }
    }

    var fault: PaymentStoreError? { state.withLock { $0.fault } }
}

extension PaymentStoreError {
    /// Whether the store works and says something of one payment.
    var isOfPayment: Bool {
        switch self {
        case .superseded, .notFound, .damaged: true
        case .unavailable, .inDoubt, .overloaded: false
        }
    }
}
