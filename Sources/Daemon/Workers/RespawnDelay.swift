import WorkerProtocol

/// How long to wait before the next worker is started.
struct RespawnDelay {
    /// A worker that served for this long had not been in trouble from its start.
    static let healthyAfter = Duration.seconds(30)

    private var deaths = 0
    private var refusals = 0

    /// One that ends again and again, but answers calls in between, is worth being there between its ends: the pause
    /// only keeps it from taking a whole core.
    static let useful = Duration.milliseconds(200)

    /// After the end of a worker that served: none at first, then 1, 2, 4 … 30 s, or ``useful``.
    /// - Parameter wasUseful: it had answered calls.
    mutating func afterDeath(served: Duration, wasUseful: Bool = false) -> Duration {
        refusals = 0
        if wasUseful {
            defer { deaths = 1 }
            return served >= Self.healthyAfter || deaths == 0 ? .zero : Self.useful
        }
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
