// The gateway's requests to paytokend:
//     PaytokendCalls.swift       here: all of them but GET /readyz
//     CallPlaces.swift           how many at a time, and in which order
//     PaytokendReadiness.swift   GET /readyz, on a connection of its own
// Connections are kept by the pool that also keeps those to Apple's host (Sessions/ConnectionPool.swift).

import DaemonAPI
import Telemetry

/// Requests to paytokend: a bounded number at a time, in turn between clients, on connections that are kept.
///
/// paytokend gives an account a number of connections (`listener.max_connections_per_uid`). The bound here is below it, so
/// `GET /readyz` finds one however many payments there are.
final class PaytokendCalls: Sendable {
    let metrics = PaytokendMetrics()
    private let settings: PaytokendSettings
    private let places: CallPlaces
    private let pool: ConnectionPool<UnixSocketConnection, Owner>

    /// All connections are one account's.
    private enum Owner: Hashable { case gateway }

    private static let mostAnswerBytes = 1 << 20

    init(_ settings: PaytokendSettings) {
        self.settings = settings
        places = CallPlaces(settings.maxConnections)
        pool = ConnectionPool(
            ConnectionPoolLimits(
                most: settings.maxConnections, mostOfOwner: settings.maxConnections, mostIdle: settings.maxConnections,
                idle: .seconds(20), age: .seconds(3600)))
    }

    /// Sends a request once; a second time where paytokend closed a kept connection before anything of an answer came. It may
    /// have acted on the first one then.
    ///
    /// - Parameters:
    ///   - request: one that may be sent twice.
    ///   - client: the gateway's client, whose turn it takes here and at paytokend; nil for the gateway itself.
    ///   - deadline: for waiting and asking together. Each takes `paytokend.timeout` at most.
    /// - Returns: the answer, and whether the request was sent twice.
    /// - Throws: `busy` where there was no place in time, and nothing was sent.
    func send(
        _ request: ClientRequest, for client: String?, before deadline: ContinuousClock.Instant
    ) async throws(UnixSocketClientError) -> (answer: ClientAnswer, isSecond: Bool) {
        guard await places.take(for: client, until: min(.now + settings.timeout, deadline)) else {
            throw .busy(path: settings.socket)
        }
        defer { places.leave() }
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
                path: settings.socket, maximumAnswerBytes: Self.mostAnswerBytes, deadline: try left(until: ends)))
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

    /// Requests that wait for a place.
    var waitingCount: Int { places.waitingCount }

    /// Closes idle connections; those under way end with their requests.
    func close() { pool.close() }
}

/// Metrics of requests to paytokend.
struct PaytokendMetrics: Sendable {
    let requests = Counter(
        "paytoken_gateway_paytokend_requests_total",
        help: "Requests to paytokend, by the connection that they went on: new or reused.", labels: ["connection"])
}

extension UnixSocketConnection: KeptConnection {
    /// The end of one that was not noticed yet is found by the next request, which is then sent again.
    func isAlive() async -> Bool { isOpen }
}
