import Synchronization
import Telemetry

/// Limits the number of requests of each client: one token bucket a client (as in RFC 2697, with one rate).
///
/// One client's flood takes no capacity from another: a request over the rate is refused before its body is read.
final class RequestRates: Sendable {
    struct Rate: Sendable, Equatable {
        /// Requests a second in the long run.
        var perSecond: Int
        /// Requests at once, after a pause.
        var burst: Int
    }

    private let rate: Rate
    /// The buckets by the client's name; no more than the configuration has clients.
    private let buckets = Mutex<[String: TokenBucket]>([:])

    init(_ rate: Rate) {
        self.rate = rate
    }

    /// Counts one request against the client's bucket. Returns nil if the request may be served, else the whole seconds
    /// until another try makes sense.
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

/// The remainder of a rate (a token bucket): each event takes one unit.
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

    /// Returns the bucket with the units added since it was last filled.
    func filled(_ now: ContinuousClock.Instant) -> TokenBucket {
        var bucket = self
        let gained = (now - filledAt).inSeconds * Double(rate.perSecond)
        bucket.tokens = min(Double(rate.burst), tokens + max(gained, 0))
        bucket.filledAt = max(now, filledAt)
        return bucket
    }
}
