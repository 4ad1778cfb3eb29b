import HTTPListener
import Locks

/// Limits the TLS handshakes of unknown clients for each address and network. A handshake costs its sender little, but
/// costs this host a signature. Each source has a token bucket. A handshake that identifies a client is given back to
/// the bucket, so only handshakes of unknown clients count.
final class HandshakeRates: Sendable {
    /// The maximum number of sources with their own bucket. Further sources share one bucket.
    static let maximumSources = 16_384
    private static let sharedSource = ConnectionSource.network("others")

    private struct State {
        var buckets: [ConnectionSource: TokenBucket] = [:]
        /// The time at which full buckets were last removed.
        var clearedAt: ContinuousClock.Instant?
    }

    private let rate: RequestRates.Rate
    private let state = Mutex(State())

    /// - Parameter rate: the rate of the narrowest source; each wider source has twice the rate.
    init(_ rate: RequestRates.Rate) { self.rate = rate }

    /// Counts one handshake against each source.
    ///
    /// - Parameter sources: the peer's account, address or network, followed by the networks that contain it, narrowest
    ///   first.
    /// - Returns: false, without counting the handshake, if the bucket of any source is empty.
    func take(_ sources: [ConnectionSource], now: ContinuousClock.Instant = .now) -> Bool {
        state.withLock { state in
            clear(&state, now)
            // All sources are checked, the widest first, before the handshake is counted. A refused handshake therefore
            // creates no bucket.
            for source in sources.reversed() {
                guard let bucket = state.buckets[key(of: source, in: state)] else { continue }
                guard bucket.filled(now).tokens >= 1 else { return false }
            }
            for (level, source) in sources.enumerated() {
                let key = key(of: source, in: state)
                var bucket = state.buckets[key]?.filled(now) ?? TokenBucket(full: rate(of: level), now)
                bucket.tokens -= 1
                state.buckets[key] = bucket
            }
            return true
        }
    }

    /// Gives a handshake back to the buckets of its sources, because it identified a client.
    func giveBack(_ sources: [ConnectionSource]) {
        state.withLock { state in
            for source in sources { state.buckets[key(of: source, in: state)]?.tokens += 1 }
        }
    }

    private func rate(of level: Int) -> RequestRates.Rate {
        RequestRates.Rate(perSecond: rate.perSecond << level, burst: rate.burst << level)
    }

    private func key(of source: ConnectionSource, in state: State) -> ConnectionSource {
        state.buckets[source] == nil && state.buckets.count >= Self.maximumSources ? Self.sharedSource : source
    }

    /// Removes buckets that are full again, once there are ``maximumSources`` buckets. It reads all buckets, so it runs
    /// at most once a second.
    private func clear(_ state: inout State, _ now: ContinuousClock.Instant) {
        guard state.buckets.count >= Self.maximumSources, state.clearedAt.map({ now - $0 >= .seconds(1) }) ?? true
        else { return }
        state.clearedAt = now
        state.buckets = state.buckets.filter { !$0.value.filled(now).isFull }
    }
}
