import Locks
import Telemetry

/// Limits the number of requests of each client: one token bucket for each client (as in RFC 2697, with one rate).
///
/// One client's flood takes no capacity from others: a request over the rate is refused before its body is read.
final class RequestRates: Sendable {
    struct Rate: Sendable, Equatable {
        /// The sustained rate in requests per second.
        var perSecond: Int
        /// The number of requests that may arrive at once after a pause.
        var burst: Int
    }

    private let rate: Rate
    /// The buckets by the client's name; there are no more than clients in the configuration.
    private let buckets = Mutex<[String: TokenBucket]>([:])

    init(_ rate: Rate) {
        self.rate = rate
    }

    /// Counts a request and returns nil if the client's rate permits the request. Otherwise returns the whole seconds
    /// until the rate permits one.
    func secondsToWait(_ client: String, now: ContinuousClock.Instant = .now) -> Int? {
        buckets.withLock { buckets in
            var bucket = buckets[client]?.filled(now) ?? TokenBucket(full: rate, now)
            defer { buckets[client] = bucket }
            if bucket.tokens >= 1 {
                bucket.tokens -= 1
                return nil
            }
            return max(1, Int(((1 - bucket.tokens) / Double(rate.perSecond)).rounded(.up)))
        }
    }
}

/// A token bucket: the number of events that a rate permits at once. Each event takes one unit from the bucket, and the
/// rate adds units over time.
struct TokenBucket {
    private let rate: RequestRates.Rate
    private var filledAt: ContinuousClock.Instant
    var tokens: Double

    init(full rate: RequestRates.Rate, _ now: ContinuousClock.Instant) {
        self.rate = rate
        filledAt = now
        tokens = Double(rate.burst)
    }

    var isFull: Bool { tokens >= Double(rate.burst) }

    /// Returns the bucket as it is at `now`, with the units that the rate has added since the last call.
    func filled(_ now: ContinuousClock.Instant) -> TokenBucket {
        var bucket = self
        let gained = (now - filledAt).inSeconds * Double(rate.perSecond)
        bucket.tokens = min(Double(rate.burst), tokens + max(gained, 0))
        bucket.filledAt = max(now, filledAt)
        return bucket
    }
}
