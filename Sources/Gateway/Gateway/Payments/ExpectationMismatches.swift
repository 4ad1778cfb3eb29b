import NIOCore
import Synchronization
import Telemetry

/// Counts how often a client's expectations differed from one payment token's data. Each answer reveals whether a guess
/// was right, so a client that has a payment token and does not know its amount could find it by asking often enough.
///
/// The counts belong to this gateway and end with it.
final class ExpectationMismatches: Sendable {
    struct Limits: Sendable {
        /// Mismatches of one payment token within the interval.
        var most = 5
        var interval = Duration.seconds(600)
        /// The number of payment tokens that are remembered; one more replaces the oldest.
        var tokens = 10_000
    }

    private struct Token: Hashable {
        let client: String
        /// paytokend compares expectations only if Apple's signature covers this identifier, so no other form of the
        /// payment token has another one.
        let transaction: [UInt8]
    }

    private struct Mismatches {
        var count = 0
        let since: ContinuousClock.Instant
    }

    private struct State {
        var byToken: [Token: Mismatches] = [:]
        /// The payment tokens in the order of their first mismatch.
        var order = CircularBuffer<Token>()
    }

    private let limits: Limits
    private let state = Mutex(State())

    init(_ limits: Limits = Limits()) { self.limits = limits }

    /// Returns the whole seconds after which this client may try the payment token again, or nil for now.
    func secondsToWait(
        _ transaction: [UInt8], of client: String, now: ContinuousClock.Instant = .now
    ) -> Int? {
        state.withLock { state in
            guard let known = state.byToken[Token(client: client, transaction: transaction)],
                known.count >= limits.most,
                now < known.since + limits.interval
            else { return nil }
            return max(1, Int((known.since + limits.interval - now).inSeconds.rounded(.up)))
        }
    }

    /// Counts one more mismatch.
    func count(_ transaction: [UInt8], of client: String, now: ContinuousClock.Instant = .now) {
        let token = Token(client: client, transaction: transaction)
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
