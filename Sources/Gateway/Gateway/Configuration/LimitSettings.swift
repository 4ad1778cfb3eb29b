import ConfigurationFile
import Encodings

/// `limits`: the limits for each client, for each address and in total.
struct LimitSettings: Sendable, Equatable {
    /// The maximum number of open connections of the listener; reduced at startup to fit the descriptor limit.
    var maxConnections: Int
    /// The maximum number of connections from one IPv4 address, or from one IPv6 network of 64 bits, whose client is
    /// unknown. Once a connection's client is known, the connection is counted for the client instead.
    var maxConnectionsPerAddress: Int
    /// The rate of TLS handshakes from one address that do not identify a client. The burst is twice the rate, or the
    /// number of connections per address if that is higher.
    var handshakes: RequestRates.Rate
    /// The maximum number of connections of one client. A connection counts once its client is identified.
    var maxConnectionsPerClient: Int
    var requests: RequestRates.Rate
    /// The maximum number of one client's payments in progress. A payment counts even if the client no longer waits for
    /// the response.
    var maxPaymentsPerClient: Int
    /// The time from the beginning of a connection until its client is identified: the TLS handshake and the first
    /// request's head.
    var authenticationTimeout: Duration
    /// The maximum time between two requests of a connection.
    var idleTimeout: Duration
    /// The time from a request's last byte to its response. When it has passed, the response is deadline_exceeded.
    var requestTimeout: Duration

    static let keys = [
        "max_connections", "max_connections_per_address", "max_connections_per_client",
        "handshakes_per_second", "requests_per_second", "burst", "max_payments_per_client", "authentication_timeout",
        "idle_timeout", "request_timeout",
    ]

    init(_ section: ConfigurationSection) {
        maxConnections = section.integer("max_connections", in: 1...60_000, default: 1_024)
        maxConnectionsPerAddress = section.integer("max_connections_per_address", in: 1...60_000, default: 64)
        maxConnectionsPerClient = section.integer("max_connections_per_client", in: 1...60_000, default: 256)
        let handshakesPerSecond = section.integer("handshakes_per_second", in: 1...100_000, default: 50)
        handshakes = RequestRates.Rate(
            perSecond: handshakesPerSecond, burst: max(2 * handshakesPerSecond, maxConnectionsPerAddress))
        let perSecond = section.integer("requests_per_second", in: 1...100_000, default: 100)
        requests = RequestRates.Rate(
            perSecond: perSecond, burst: section.integer("burst", in: 1...100_000, default: 2 * perSecond))
        maxPaymentsPerClient = section.integer("max_payments_per_client", in: 1...60_000, default: 128)
        authenticationTimeout = section.duration(
            "authentication_timeout", in: .milliseconds(100)...Duration.seconds(60), default: .seconds(10))
        idleTimeout = section.duration(
            "idle_timeout", in: .milliseconds(100)...DurationText.days(1), default: .seconds(60))
        requestTimeout = section.duration(
            "request_timeout", in: .milliseconds(100)...Duration.seconds(60), default: .seconds(15))
    }
}

extension LimitSettings {
    /// Returns the part of `most` connections that may be open without an identified client: a quarter, but at most
    /// 1,024. Once this part is full, each new connection is compared with all of these connections, so their number
    /// must be small.
    static func unidentifiedConnections(of most: Int) -> Int { max(1, min(most / 4, 1_024)) }

    /// The number of connections that all known clients together may have.
    var maxConnectionsOfClients: Int { max(1, maxConnections - Self.unidentifiedConnections(of: maxConnections)) }
}
