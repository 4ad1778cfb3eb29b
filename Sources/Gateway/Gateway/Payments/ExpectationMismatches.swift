import Locks
import NIOCore
import Telemetry

/// Limits how often a client can state wrong expectations for the same payment token. Each response reveals whether the
/// stated amount was correct. Without the limit, a client that has a payment token but does not know its amount could
/// find the amount by trial and error.
///
/// The counts are kept in this gateway's memory only.
final class ExpectationMismatches: Sendable {
    struct Limits: Sendable {
        /// The maximum number of one client's mismatches with one payment token within ``interval``.
        var most = 5
        var interval = Duration.seconds(600)
        /// The maximum number of payment tokens whose mismatches are counted. One more payment token replaces the one
        /// that was added first.
        var tokens = 10_000
    }

    private struct ClientPaymentToken: Hashable {
        let client: String
        /// The transaction identifier. paytokend compares expectations only if Apple's signature covers this
        /// identifier. A client therefore cannot change it to get more attempts with the same payment token.
        let transaction: [UInt8]
    }

    private struct Mismatches {
        var count = 0
        let since: ContinuousClock.Instant
    }

    private struct State {
        var byToken: [ClientPaymentToken: Mismatches] = [:]
        /// The payment tokens in ``byToken``, in the order in which they were added.
        var order = CircularBuffer<ClientPaymentToken>()
    }

    private let limits: Limits
    private let state = Mutex(State())

    init(_ limits: Limits = Limits()) { self.limits = limits }

    /// Returns the whole seconds after which this client may try the payment token again, or nil if it may try now.
    func secondsToWait(
        _ transaction: [UInt8], of client: String, now: ContinuousClock.Instant = .now
    ) -> Int? {
        state.withLock { state in
            guard let known = state.byToken[ClientPaymentToken(client: client, transaction: transaction)],
                known.count >= limits.most,
                now < known.since + limits.interval
            else { return nil }
            return max(1, Int((known.since + limits.interval - now).inSeconds.rounded(.up)))
        }
    }

    /// Counts a mismatch between the client's expectations and the payment token's data. The count begins again at the
    /// first mismatch after the interval has passed.
    func count(_ transaction: [UInt8], of client: String, now: ContinuousClock.Instant = .now) {
        let token = ClientPaymentToken(client: client, transaction: transaction)
        state.withLock { state in
            if let known = state.byToken[token], now < known.since + limits.interval {
                state.byToken[token]?.count += 1
                return
            }
            if state.byToken[token] == nil { state.order.append(token) }
            state.byToken[token] = Mismatches(count: 1, since: now)
            if state.order.count > limits.tokens, let oldest = state.order.popFirst() { state.byToken[oldest] = nil }
        }
    }
}
