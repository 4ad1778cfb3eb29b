import NIOCore
import Synchronization

/// Connections to Apple's host that wait for another request. A handshake costs the token a signature, a request on a
/// connection that stands costs it none.
///
/// Each belongs to one merchant and one of its keys and serves no other: TLS has told Apple who speaks on it.
final class ConnectionPool: Sendable {
    struct Owner: Hashable {
        let merchantIdentifier: String
        let publicKeyHash: String
    }

    struct Limits: Sendable {
        /// Connections in all, those under way too.
        var most = 64
        /// Of one owner, so that no merchant has them all.
        var mostOfOwner = 32
        /// Idle ones of one owner: as many as one client may have under way, or some would be closed at each of its peaks and
        /// cost a signature at the next.
        var mostIdle = SessionPlaces.mostOfClient
        /// How long a connection waits for another request.
        var idle = Duration.seconds(30)
        /// How long after its handshake a connection is used: for so long a key that was suspended or compromised since
        /// could still speak.
        var age = Duration.seconds(300)
    }

    private struct State {
        var idle: [Owner: [AppleConnection]] = [:]
        var open = 0
        var openByOwner: [Owner: Int] = [:]
        var isClosed = false

        mutating func count(_ owner: Owner) {
            open += 1
            openByOwner[owner, default: 0] += 1
        }
    }

    private let limits: Limits
    private let state = Mutex(State())

    init(_ limits: Limits) { self.limits = limits }

    /// One that stands, the last used first; nil when there is none.
    func take(_ owner: Owner) async -> AppleConnection? {
        while let connection = state.withLock({ $0.idle[owner]?.popLast() }) {
            if connection.began + limits.age > .now, await connection.isAlive() { return connection }
            connection.close()
        }
        return nil
    }

    /// Counts a connection that is about to be opened; false when there are too many, in all or of this owner.
    func reserve(for newcomer: Owner) -> Bool {
        let (isFree, victim) = state.withLock { state -> (Bool, AppleConnection?) in
            guard state.openByOwner[newcomer, default: 0] < limits.mostOfOwner else { return (false, nil) }
            guard state.open >= limits.most else {
                state.count(newcomer)
                return (true, nil)
            }
            // An idle one of somebody else's makes room: it counts until it is closed, and the newcomer from now on.
            guard let owner = state.idle.first(where: { !$0.value.isEmpty })?.key else { return (false, nil) }
            state.count(newcomer)
            return (true, state.idle[owner]?.removeFirst())
        }
        victim?.close()
        return isFree
    }

    /// A connection that was counted is none any more.
    func release(of owner: Owner) {
        state.withLock { state in
            state.open -= 1
            let rest = state.openByOwner[owner, default: 1] - 1
            state.openByOwner[owner] = rest > 0 ? rest : nil
        }
    }

    /// Keeps a connection for the owner's next request.
    func give(_ connection: AppleConnection, to owner: Owner) {
        let isKept = state.withLock { state -> Bool in
            guard !state.isClosed, state.idle[owner, default: []].count < limits.mostIdle else { return false }
            state.idle[owner, default: []].append(connection)
            return true
        }
        guard isKept else { return connection.close() }
        let idle = limits.idle
        Task { [weak self, weak connection] in
            try? await Task.sleep(for: idle)
            guard let self, let connection else { return }
            if remove(connection, of: owner, notUsedFor: idle) { connection.close() }
        }
    }

    private func remove(_ connection: AppleConnection, of owner: Owner, notUsedFor idle: Duration) -> Bool {
        state.withLock { state in
            guard let index = state.idle[owner]?.firstIndex(where: { $0 === connection }),
                connection.lastUse + idle <= .now
            else { return false }
            state.idle[owner]?.remove(at: index)
            if state.idle[owner]?.isEmpty == true { state.idle[owner] = nil }
            return true
        }
    }

    /// Closes what is idle, and from now on whatever is given back.
    func close() {
        let idle = state.withLock { state in
            defer { state.idle = [:] }
            state.isClosed = true
            return state.idle.values.flatMap { $0 }
        }
        for connection in idle { connection.close() }
    }

    /// How many are idle, for tests and metrics.
    var idleCount: Int { state.withLock { $0.idle.values.reduce(0) { $0 + $1.count } } }
    var openCount: Int { state.withLock { $0.open } }
}
