import OutgoingConnections
import Synchronization

/// A connection that serves one request after another.
protocol KeptConnection: AnyObject, Sendable {
    var http: HTTPConnection { get }
    /// Returns true if the other side has kept the connection open, as far as this host can know.
    func isAlive() async -> Bool
}

/// Bounds of a pool's connections, in number and time.
struct ConnectionPoolLimits: Sendable {
    /// Connections in all, those under way too; where they are counted (``ConnectionPool/reserve(for:)``).
    var most = 64
    /// The most connections of one owner, so that no merchant has them all.
    var mostOfOwner = 32
    /// Connections beyond both for a check by a person, who looks when sessions fail, for want of connections perhaps.
    var reserved = 2
    /// Idle ones of one owner: as many as one client may have under way, or some would be closed at each of its peaks and
    /// cost a signature at the next.
    var mostIdle = SessionRoutes.mostOfClient
    /// The time that a connection waits for another request.
    var idle = Duration.seconds(30)
    /// The time after its handshake in which a connection is used: for so long a key that was suspended or compromised since
    /// could still speak.
    var age = Duration.seconds(300)
}

/// Connections that wait for another request: to Apple's host, where a handshake costs the token a signature, and to paytokend,
/// where a new connection costs half of a release.
///
/// Each belongs to an owner and serves no other. To Apple's host that is one merchant and one of its keys: TLS has told Apple who
/// speaks on it.
final class ConnectionPool<Connection: KeptConnection, Owner: Hashable & Sendable>: Sendable {
    private struct State {
        var idle: [Owner: [Connection]] = [:]
        var open = 0
        var openByOwner: [Owner: Int] = [:]
        var isClosed = false
        /// A task closes what is idle for too long.
        var isSwept = false

        mutating func count(_ owner: Owner) {
            open += 1
            openByOwner[owner, default: 0] += 1
        }
    }

    private let limits: ConnectionPoolLimits
    private let state = Mutex(State())

    init(_ limits: ConnectionPoolLimits) { self.limits = limits }

    /// An idle one, the last used first; nil when there is none.
    func take(_ owner: Owner) async -> Connection? {
        while let connection = state.withLock({ $0.idle[owner]?.popLast() }) {
            if connection.http.began + limits.age > .now, await connection.isAlive() { return connection }
            connection.http.close()
        }
        return nil
    }

    /// Counts a connection that is about to be opened; false when there are too many, in all or of this owner.
    ///
    /// - Parameter mayUseReserve: for one of those that are kept free.
    func reserve(for newcomer: Owner, mayUseReserve: Bool = false) -> Bool {
        let more = mayUseReserve ? limits.reserved : 0
        let (isFree, victim) = state.withLock { state -> (Bool, Connection?) in
            guard state.openByOwner[newcomer, default: 0] < limits.mostOfOwner + more else { return (false, nil) }
            guard state.open >= limits.most + more else {
                state.count(newcomer)
                return (true, nil)
            }
            // An idle one of another owner makes room: it counts until it is closed, and the newcomer from now on.
            guard let owner = state.idle.first(where: { !$0.value.isEmpty })?.key else { return (false, nil) }
            state.count(newcomer)
            return (true, state.idle[owner]?.removeFirst())
        }
        victim?.http.close()
        return isFree
    }

    /// A connection that was counted is closed.
    func release(of owner: Owner) {
        state.withLock { state in
            state.open -= 1
            let rest = state.openByOwner[owner, default: 1] - 1
            state.openByOwner[owner] = rest > 0 ? rest : nil
        }
    }

    /// Keeps a connection for the owner's next request.
    func give(_ connection: Connection, to owner: Owner) {
        let (isKept, beginsToSweep) = state.withLock { state -> (Bool, Bool) in
            guard !state.isClosed, state.idle[owner, default: []].count < limits.mostIdle else { return (false, false) }
            state.idle[owner, default: []].append(connection)
            defer { state.isSwept = true }
            return (true, !state.isSwept)
        }
        guard isKept else { return connection.http.close() }
        guard beginsToSweep else { return }
        let first = connection.http.lastUse + limits.idle
        Task { [weak self] in
            var due: ContinuousClock.Instant? = first
            while let next = due {
                try? await Task.sleep(until: next, clock: .continuous)
                due = self?.sweep()
            }
        }
    }

    /// Closes what was not used for too long.
    ///
    /// - Returns: when the next one may be due; nil where none is idle.
    private func sweep() -> ContinuousClock.Instant? {
        let (late, next) = state.withLock { state -> ([Connection], ContinuousClock.Instant?) in
            let late = state.idle.values.flatMap { $0 }.filter { $0.http.lastUse + limits.idle <= .now }
            state.idle = state.idle.compactMapValues { connections in
                let kept = connections.filter { connection in !late.contains { $0 === connection } }
                return kept.isEmpty ? nil : kept
            }
            let oldest = state.idle.values.flatMap { $0 }.map(\.http.lastUse).min()
            state.isSwept = oldest != nil
            return (late, oldest.map { $0 + limits.idle })
        }
        for connection in late { connection.http.close() }
        return next
    }

    /// Closes what is idle, and from now on whatever is given back.
    func close() {
        let idle = state.withLock { state in
            defer { state.idle = [:] }
            state.isClosed = true
            return state.idle.values.flatMap { $0 }
        }
        for connection in idle { connection.http.close() }
    }

    /// The number of idle connections, for tests and metrics.
    var idleCount: Int { state.withLock { $0.idle.values.reduce(0) { $0 + $1.count } } }
    var openCount: Int { state.withLock { $0.open } }
}
