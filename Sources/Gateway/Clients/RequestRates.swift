import Synchronization
import Telemetry

/// How many requests each client may make: a token bucket for each (as in RFC 2697's, of one rate).
///
/// One client's flood takes nothing from another: what is over the rate is refused before its body is read.
final class RequestRates: Sendable {
    struct Rate: Sendable, Equatable {
        /// In the long run.
        var perSecond: Int
        /// At once, after a pause.
        var burst: Int
    }

    private struct Bucket {
        var tokens: Double
        var filledAt: ContinuousClock.Instant
    }

    private let rate: Rate
    /// By the client's name: as many as the configuration has.
    private let buckets = Mutex<[String: Bucket]>([:])

    init(_ rate: Rate) {
        self.rate = rate
    }

    /// Takes one request's token. nil: it may be served; else the whole seconds after which another try makes sense.
    func secondsToWait(_ client: String, now: ContinuousClock.Instant = .now) -> Int? {
        buckets.withLock { buckets in
            var bucket = buckets[client] ?? Bucket(tokens: Double(rate.burst), filledAt: now)
            let gained = (now - bucket.filledAt).inSeconds * Double(rate.perSecond)
            bucket.tokens = min(Double(rate.burst), bucket.tokens + max(gained, 0))
            bucket.filledAt = max(now, bucket.filledAt)
            defer { buckets[client] = bucket }
            if bucket.tokens >= 1 {
                bucket.tokens -= 1
                return nil
            }
            return max(1, Int(((1 - bucket.tokens) / Double(rate.perSecond)).rounded(.up)))
        }
    }
}
