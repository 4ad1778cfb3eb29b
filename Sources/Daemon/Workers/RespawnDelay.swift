import WorkerProtocol

/// How long to wait before the next worker is started.
struct RespawnDelay {
    /// A worker that served for this long had not been in trouble from its start.
    static let healthyAfter = Duration.seconds(30)

    private var deaths = 0
    private var refusals = 0

    /// After the end of a worker that served: none at first, then 1, 2, 4 … 30 s.
    mutating func afterDeath(served: Duration) -> Duration {
        refusals = 0
        deaths = served >= Self.healthyAfter ? 1 : deaths + 1
        return Self.doubling(deaths - 2, atMost: 30)
    }

    /// After a worker that could not open its token: 1, 2, 4, then every 5 s, since the token may be back at any
    /// moment. nil for a refused PIN: another try could lock it, so something has to change first.
    mutating func afterRefusal(_ failure: WorkerFailure) -> Duration? {
        refusals += 1
        switch failure.kind {
        case .loginRefused: return nil
        case .protocolViolation, .notSupported: return .seconds(30)
        default: return Self.doubling(refusals - 1, atMost: 5)
        }
    }

    private static func doubling(_ exponent: Int, atMost most: Int) -> Duration {
        exponent < 0 ? .zero : .seconds(min(1 << min(exponent, 16), most))
    }
}
