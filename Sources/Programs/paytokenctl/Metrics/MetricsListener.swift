import HTTPListener
import NIOCore
import NIOPosix

/// The connections of scrapers: few, and limited in time and size. Each request is for the metrics or is refused.
struct MetricsConnections: ConnectionService {
    let scrape: SharedScrape

    func accept(_ connection: CInt, from peer: ArrivingPeer) -> AcceptedConnection {
        AcceptedConnection(source: peer.source) { _ in MetricsRequests(scrape: scrape) }
    }

    func connectionsChanged(by difference: Int) {}

    /// The limits on connections. Prometheus needs one connection, or two if there is a pair of servers. A response may
    /// have megabytes. Every account of a host has the same address, so an account with many connections could exclude
    /// Prometheus. To prevent this, the oldest connection is closed.
    private static let connections = ConnectionLimits.Maximum(total: 16, perSource: 8, unidentified: 16)
    private static let limits = RequestLimits(idle: .seconds(30), request: .seconds(10))

    static func listen(
        at address: SocketAddress, scrape: SharedScrape, logger: ServingLog
    ) async throws(ListenerError) -> Listener {
        try await Listener.start(
            [
                ListeningSocket(
                    name: "metrics", place: .network(address), service: Self(scrape: scrape),
                    connectionLimits: ConnectionLimits(connections), answersOnEventLoop: false, limits: limits)
            ], group: MultiThreadedEventLoopGroup.singleton, logger: logger.logger)
    }
}

/// `GET /metrics` and `HEAD /metrics`. Nothing else in a request is evaluated or passed on.
struct MetricsRequests: RequestHandler {
    let scrape: SharedScrape

    func admit(_ head: RequestHead) -> Admission {
        guard head.path == "/metrics" else {
            return .refuse(.text(404, "There is only /metrics here."))
        }
        guard head.method == "GET" || head.method == "HEAD" else {
            var answer = HTTPAnswer.text(405, "Only GET and HEAD are served here.")
            answer.headers.append(.init(name: "Allow", value: "GET, HEAD"))
            return .refuse(answer)
        }
        return .accept(bodyLimit: 0) { [scrape] _ in await scrape.answer() }
    }

    func answer(to condition: HTTPCondition) -> HTTPAnswer { .text(condition.kind.rawValue, condition.message) }
}

extension HTTPAnswer {
    /// One sentence for display.
    static func text(_ status: Int, _ sentence: String) -> HTTPAnswer {
        HTTPAnswer(
            status: status, headers: [Header(name: "Content-Type", value: "text/plain; charset=utf-8")],
            body: Array((sentence + "\n").utf8))
    }
}
