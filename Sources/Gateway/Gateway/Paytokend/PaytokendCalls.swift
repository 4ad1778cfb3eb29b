// The gateway's requests to paytokend:
//     PaytokendCalls.swift       this file: all requests except GET /readyz
//     CallSlots.swift            the number of concurrent calls, and their order
//     PaytokendReadiness.swift   GET /readyz, on its own connection
// Idle connections are kept in a pool of the same type as those to Apple's host (Sessions/ConnectionPool.swift).

import DaemonAPI
import Telemetry

/// Sends requests to paytokend on persistent connections. The number of concurrent requests is bounded, and the clients
/// take turns (``CallSlots``).
///
/// paytokend limits the connections of each account (`listener.max_connections_per_uid`). The gateway's limit,
/// `paytokend.max_connections`, is lower. ``PaytokendReadiness`` can therefore always open its own connection, even if
/// all others are in use.
final class PaytokendCalls: Sendable {
    let metrics = PaytokendMetrics()
    private let settings: PaytokendSettings
    private let slots: CallSlots
    private let pool: ConnectionPool<UnixSocketConnection, Owner>

    /// The only owner in the pool, since a connection to paytokend can carry the requests of every client.
    private enum Owner: Hashable { case gateway }

    private static let maximumAnswerBytes = 1 << 20

    init(_ settings: PaytokendSettings) {
        self.settings = settings
        slots = CallSlots(settings.maxConnections)
        pool = ConnectionPool(
            ConnectionPoolLimits(
                most: settings.maxConnections, maximumOfOwner: settings.maxConnections,
                maximumIdle: settings.maxConnections,
                idle: .seconds(20), age: .seconds(3600)))
    }

    /// Sends a request, and sends it again if paytokend closed a persistent connection before any part of a response
    /// arrived. paytokend may have acted on the first request.
    ///
    /// - Parameters:
    ///   - request: a request that may be sent twice.
    ///   - client: the client on whose behalf the request is made; nil for the gateway itself. Both the gateway and
    ///     paytokend serve clients in turn.
    ///   - deadline: the time at which the call ends, whether it still waits for a slot or for the response. Each of
    ///     the two waits also has the limit `paytokend.timeout`.
    /// - Returns: the response, and true if the request was sent twice.
    /// - Throws: `busy` if no slot for the call became free in time; nothing was sent.
    func send(
        _ request: ClientRequest, for client: String?, before deadline: ContinuousClock.Instant
    ) async throws(UnixSocketClientError) -> (answer: ClientAnswer, isSecond: Bool) {
        guard await slots.take(for: client, until: min(.now + settings.timeout, deadline)) else {
            throw .busy(path: settings.socket)
        }
        defer { slots.leave() }
        let ends = min(.now + settings.timeout, deadline)
        var request = request
        request.onBehalfOf = client.flatMap { ClientName($0) }
        var isSecond = false
        if let kept = await pool.take(.gateway) {
            do {
                return (try await send(request, on: kept, until: ends, "reused"), false)
            } catch UnixSocketClientError.closed {
                isSecond = true
            }
        }
        let new = try await UnixSocketConnection.open(
            UnixSocketClient(
                path: settings.socket, maximumAnswerBytes: Self.maximumAnswerBytes, deadline: try left(until: ends)))
        return (try await send(request, on: new, until: ends, "new"), isSecond)
    }

    private func send(
        _ request: ClientRequest, on connection: UnixSocketConnection, until ends: ContinuousClock.Instant,
        _ kind: String
    ) async throws(UnixSocketClientError) -> ClientAnswer {
        metrics.requests.increment([kind])
        let answer: ClientAnswer
        do throws(UnixSocketClientError) {
            answer = try await connection.send(request, within: try left(until: ends))
        } catch {
            connection.close()
            throw error
        }
        if connection.isOpen { pool.give(connection, to: .gateway) }
        return answer
    }

    private func left(until ends: ContinuousClock.Instant) throws(UnixSocketClientError) -> Duration {
        let left = ContinuousClock.now.duration(to: ends)
        guard left > .zero else { throw .deadlineExceeded(path: settings.socket, after: settings.timeout) }
        return left
    }

    /// The number of requests that wait because the maximum number of calls is in progress.
    var waitingCount: Int { slots.waitingCount }

    /// Closes idle connections. A connection in use is closed when its request ends.
    func close() { pool.close() }
}

struct PaytokendMetrics: Sendable {
    let requests = Counter(
        "paytoken_gateway_paytokend_requests_total",
        help: "Requests to paytokend, by the connection that they went on: new or reused.", labels: ["connection"])
}

extension UnixSocketConnection: KeptConnection {
    /// Returns true unless this host has noticed that the connection is closed. If paytokend has just closed it, the
    /// next request fails, and ``PaytokendCalls`` sends that request again on a new connection.
    func isAlive() async -> Bool { isOpen }
}
