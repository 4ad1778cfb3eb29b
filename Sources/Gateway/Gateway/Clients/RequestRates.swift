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

    private let rate: Rate
    /// By the client's name: as many as the configuration has.
    private let buckets = Mutex<[String: TokenBucket]>([:])

    init(_ rate: Rate) {
        self.rate = rate
    }

    /// Takes one request's token. nil: it may be served; else the whole seconds after which another try makes sense.
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

/// The rest of a rate: a token for each event.
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

    /// The bucket with what it has gained since it was last filled.
    func filled(_ now: ContinuousClock.Instant) -> TokenBucket {
        var bucket = self
        let gained = (now - filledAt).inSeconds * Double(rate.perSecond)
        bucket.tokens = min(Double(rate.burst), tokens + max(gained, 0))
        bucket.filledAt = max(now, filledAt)
        return bucket
    }
}
