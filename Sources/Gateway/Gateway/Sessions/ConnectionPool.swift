import Locks
import OutgoingConnections

/// A connection that serves one request after another.
protocol KeptConnection: AnyObject, Sendable {
    var http: HTTPConnection { get }
    /// Returns true if the other side has kept the connection open, as far as this host knows.
    func isAlive() async -> Bool
}

/// The limits of a pool: the numbers of its connections, and the times for which they are kept.
struct ConnectionPoolLimits: Sendable {
    /// The maximum number of connections that ``ConnectionPool/reserve(for:mayUseReserve:)`` permits, whether they are
    /// idle or in use.
    var most = 64
    /// The maximum number of connections of one owner, so that one merchant cannot use all of them.
    var maximumOfOwner = 32
    /// The number of connections beyond both limits that are reserved for checks by a person. Without them, a person
    /// could not check sessions that fail for lack of connections.
    var reserved = 2
    /// The maximum number of idle connections of one owner, equal to the number of sessions that one client may have in
    /// progress. With a lower limit, connections would be closed after each peak, and new ones would cost signatures at
    /// the next peak.
    var maximumIdle = SessionRoutes.maximumOfClient
    /// The time for which an idle connection is kept.
    var idle = Duration.seconds(30)
    /// The time after its handshake during which a connection is used. For that long, a connection remains usable even
    /// if its key has since been suspended or compromised.
    var age = Duration.seconds(300)
}

/// Keeps idle connections for further requests. A new connection to Apple's host costs a signature by the HSM token. A
/// new connection to paytokend costs half as much as a release.
///
/// Each connection belongs to one owner and serves no other. For Apple's host, the owner is one merchant with one of
/// its keys, since TLS has identified the merchant to Apple.
final class ConnectionPool<Connection: KeptConnection, Owner: Hashable & Sendable>: Sendable {
    private struct State {
        var idle: [Owner: [Connection]] = [:]
        var open = 0
        var openByOwner: [Owner: Int] = [:]
        var isClosed = false
        /// True while a task exists that closes connections once they are idle for too long.
        var isSweepScheduled = false

        /// Removes the owner's most recently used idle connection, if possible of the current event loop, which then need not
        /// wake another one.
        mutating func takeIdle(of owner: Owner) -> Connection? {
            guard let last = idle[owner]?.indices.last else { return nil }
            let index = idle[owner]?.lastIndex { $0.http.isOnCurrentEventLoop } ?? last
            return idle[owner]?.remove(at: index)
        }

        mutating func count(_ owner: Owner) {
            open += 1
            openByOwner[owner, default: 0] += 1
        }
    }

    private let limits: ConnectionPoolLimits
    private let state = Mutex(State())

    init(_ limits: ConnectionPoolLimits) { self.limits = limits }

    /// Returns the owner's most recently used idle connection that is still usable; nil if there is none.
    func take(_ owner: Owner) async -> Connection? {
        while let connection = state.withLock({ $0.takeIdle(of: owner) }) {
            if connection.http.began + limits.age > .now, await connection.isAlive() { return connection }
            connection.http.close()
        }
        return nil
    }

    /// Counts a connection that is about to be opened. Returns false if there are too many in total or for this owner.
    ///
    /// - Parameter mayUseReserve: true for a connection that may be one of the ``ConnectionPoolLimits/reserved`` ones.
    func reserve(for newcomer: Owner, mayUseReserve: Bool = false) -> Bool {
        let more = mayUseReserve ? limits.reserved : 0
        let (isFree, victim) = state.withLock { state -> (Bool, Connection?) in
            guard state.openByOwner[newcomer, default: 0] < limits.maximumOfOwner + more else { return (false, nil) }
            guard state.open >= limits.most + more else {
                state.count(newcomer)
                return (true, nil)
            }
            // Closing an idle connection makes room for the new one. The idle connection still counts until it has
            // closed; the new one counts from now on.
            guard let owner = state.idle.first(where: { !$0.value.isEmpty })?.key else { return (false, nil) }
            state.count(newcomer)
            return (true, state.idle[owner]?.removeFirst())
        }
        victim?.http.close()
        return isFree
    }

    /// Removes one of the owner's connections from the counts, after it has closed.
    func release(of owner: Owner) {
        state.withLock { state in
            state.open -= 1
            let rest = state.openByOwner[owner, default: 1] - 1
            state.openByOwner[owner] = rest > 0 ? rest : nil
        }
    }

    /// Keeps a connection for the owner's next request, or closes it if the pool is closed or has enough idle
    /// connections of the owner.
    func give(_ connection: Connection, to owner: Owner) {
        let (isKept, beginsToSweep) = state.withLock { state -> (Bool, Bool) in
            guard !state.isClosed, state.idle[owner, default: []].count < limits.maximumIdle else {
                return (false, false)
            }
            state.idle[owner, default: []].append(connection)
            defer { state.isSweepScheduled = true }
            return (true, !state.isSweepScheduled)
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

    /// Closes connections that have not been used for too long.
    ///
    /// - Returns: the time at which the next connection may have to be closed; nil if no connection is idle.
    private func sweep() -> ContinuousClock.Instant? {
        let (late, next) = state.withLock { state -> ([Connection], ContinuousClock.Instant?) in
            let late = state.idle.values.flatMap { $0 }.filter { $0.http.lastUse + limits.idle <= .now }
            state.idle = state.idle.compactMapValues { connections in
                let kept = connections.filter { connection in !late.contains { $0 === connection } }
                return kept.isEmpty ? nil : kept
            }
            let oldest = state.idle.values.flatMap { $0 }.map(\.http.lastUse).min()
            state.isSweepScheduled = oldest != nil
            return (late, oldest.map { $0 + limits.idle })
        }
        for connection in late { connection.http.close() }
        return next
    }

    /// Closes the idle connections. From now on, the pool also closes each connection that it gets back.
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
}
