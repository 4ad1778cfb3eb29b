import Locks
import NIOCore
import Telemetry

/// Limits how often a client can state wrong expectations for the same payment token. Each response reveals whether the
/// stated amount was correct. Without the limit, a client that has a payment token but does not know its amount could
/// find the amount by trial and error.
///
/// The counts are in this gateway's memory only. A restart discards them, and each of several gateways counts
/// separately.
final class ExpectationMismatches: Sendable {
    struct Limits: Sendable {
        /// The maximum number of mismatches that one client may cause with one payment token within ``interval``.
        var maximumMismatches = 5
        /// The length of a count, from its first mismatch. The first mismatch after this time begins a new count.
        var interval = Duration.seconds(600)
        /// The maximum number of counts, one for each client and payment token. A further count replaces the oldest
        /// one.
        var maximumCounts = 10_000
    }

    /// The key of a count: a client, and a payment token that this client has sent.
    private struct ClientPaymentToken: Hashable {
        let client: String
        /// The payment token's transaction identifier, 32 bytes. paytokend compares expectations only if Apple's
        /// signature covers this identifier. A client therefore cannot change it to get more attempts with the same
        /// payment token.
        let transactionIdentifier: [UInt8]
    }

    private struct MismatchCount {
        var count = 0
        /// The time of the first mismatch in this count.
        let began: ContinuousClock.Instant
    }

    private struct State {
        var counts: [ClientPaymentToken: MismatchCount] = [:]
        /// The keys of ``counts``, in the order in which they were added.
        var insertionOrder = CircularBuffer<ClientPaymentToken>()
    }

    private let limits: Limits
    private let state = Mutex(State())

    init(_ limits: Limits = Limits()) { self.limits = limits }

    /// Returns the whole seconds after which this client may try the payment token again; nil if the client may try
    /// now.
    func secondsToWait(
        for transactionIdentifier: [UInt8], client: String, now: ContinuousClock.Instant = .now
    ) -> Int? {
        let key = ClientPaymentToken(client: client, transactionIdentifier: transactionIdentifier)
        return state.withLock { state in
            guard let mismatches = state.counts[key],
                mismatches.count >= limits.maximumMismatches,
                now < mismatches.began + limits.interval
            else { return nil }
            return max(1, Int((mismatches.began + limits.interval - now).inSeconds.rounded(.up)))
        }
    }

    /// Counts a mismatch between the client's expectations and the payment token's data. If ``Limits/interval`` has
    /// passed since the first counted mismatch, the count begins again.
    func countMismatch(for transactionIdentifier: [UInt8], client: String, now: ContinuousClock.Instant = .now) {
        let key = ClientPaymentToken(client: client, transactionIdentifier: transactionIdentifier)
        state.withLock { state in
            if let mismatches = state.counts[key], now < mismatches.began + limits.interval {
                state.counts[key]?.count += 1
                return
            }
            if state.counts[key] == nil { state.insertionOrder.append(key) }
            state.counts[key] = MismatchCount(count: 1, began: now)
            if state.insertionOrder.count > limits.maximumCounts, let oldest = state.insertionOrder.popFirst() {
                state.counts[oldest] = nil
            }
        }
    }
}
