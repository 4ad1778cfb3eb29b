import Foundation
import Logging
import NIOCore
import NIOPosix
import ServerProgram
import Telemetry
import TestSupport

@testable import Gateway
@testable import HTTPListener

/// A gateway in its own directory, with further routes for tests.
struct GatewayFixture {
    let directory: FreshDirectory
    let assembly: GatewayAssembly
    let listener: Listener
    let log = Shared<[String]>([])
    /// A latch that makes requests to /held wait while it is closed.
    let latch: Latch
    /// The number of bodies that the handlers received.
    let answered: Shared<Int>

    static let key = "ptgw_of-the-shop"
    static let otherKey = "ptgw_of-another"

    /// The YAML of the clients for most tests: `shop`, and `other`, which has another merchant. Both may request
    /// sessions.
    static func clients(_ more: String = "") -> String {
        """
        clients:
          - name: shop
            key_sha256: "\(NewKeyHash.of(key))"
            merchants: ["merchant.com.example.*"]
            operations: [session]
            domains: [shop.example]
          - name: other
            key_sha256: "\(NewKeyHash.of(otherKey))"
            merchants: ["merchant.com.other"]
            operations: [session]
            domains: [other.example]

        """ + more
    }

    enum NewKeyHash {
        static func of(_ key: String) -> String {
            BearerKey.sha256(of: key).map { String(format: "%02x", $0) }.joined()
        }
    }

    var socket: String { directory.path("g.sock") }
    var adminSocket: String { directory.path("a.sock") }
    var configurationFile: String { directory.path("c.yaml") }

    /// The port that the system chose.
    var port: Int { get throws { try requireValue(listener.networkAddresses.first?.port) } }

    /// - Parameters:
    ///   - listens: the YAML value of `listener`; a Unix socket by default.
    ///   - sections: further sections of the configuration.
    ///   - admin: the value of `admin`.
    ///   - testRoutes: true to add the tests' own routes to the gateway's.
    init(
        in directory: FreshDirectory? = nil, listens: String? = nil, clients: String = clients(),
        sections: String = "", admin: String = "{ socket: a.sock }", testRoutes: Bool = true
    ) async throws {
        let directory = try directory ?? FreshDirectory()
        self.directory = directory
        latch = Latch(isOpen: false)
        answered = Shared(0)
        let limits = sections.contains("limits:") ? "" : "limits: { authentication_timeout: 60s, idle_timeout: 10m }\n"
        try directory.write(
            "listener: \(listens ?? "{ address: \"unix:g.sock\" }")\nadmin: \(admin)\n"
                + "paytokend: { socket: p.sock, timeout: 2s }\n" + limits + clients + sections, to: "c.yaml")
        let configuration = try GatewayConfiguration.load(path: directory.path("c.yaml"), environment: [:])
        let lines = log
        let logger = Logger(label: "test") { _ in CapturedLog(lines: lines) }
        assembly = try GatewayAssembly.make(
            configuration, logger: logger, routes: testRoutes ? Self.routes(latch, answered, configuration) : [])
        listener = try await assembly.listen()
    }

    private static func routes(
        _ latch: Latch, _ answered: Shared<Int>, _ configuration: GatewayConfiguration
    ) -> [GatewayRoute] {
        let limit = configuration.listener.maxRequestBytes
        let echo: @Sendable (GatewayRequest) async throws(GatewayRefusal) -> EndpointAnswer = { request in
            answered.increment()
            return .bytes(
                Array("\(request.client.name) \(request.body.count)".utf8), contentType: "text/plain")
        }
        return [
            GatewayRoute("POST", "/echo", operation: .session, bodyLimit: limit, respond: echo),
            GatewayRoute("GET", "/whoami", operation: .session, respond: echo),
            GatewayRoute("GET", "/pay", operation: .pay, respond: echo),
            GatewayRoute("GET", "/held", operation: .session) { request throws(GatewayRefusal) in
                await latch.pass()
                return try await echo(request)
            },
            GatewayRoute("GET", "/refused", operation: .session) { _ throws(GatewayRefusal) in
                throw GatewayRefusal(.daemon(.hsmUnavailable), "The token is away.", retryAfter: 7)
            },
        ]
    }

    func get(_ path: String, key: String? = key, _ arguments: [String] = []) async throws -> CurlAnswer {
        try await Curl.request(
            path, socket: socket,
            arguments: (key.map { ["--header", "Authorization: Bearer \($0)"] } ?? []) + arguments)
    }

    /// Reloads, as SIGHUP does.
    func reload(_ log: StandardErrorLog = .init()) async {
        await assembly.reload(from: configurationFile, log: log, logger: assembly.logger)
    }

    func connect() async throws -> RawConnection { try await RawConnection(socket, staysOpen: true) }

    static let authorized = "Host: x\r\nAuthorization: Bearer \(key)\r\n"

    /// Runs `body`, and then shuts the listener down, even if it throws.
    func use<Result>(_ body: (GatewayFixture) async throws -> Result) async throws -> Result {
        do {
            let result = try await body(self)
            latch.open()
            await listener.shutdown(grace: .seconds(5))
            return result
        } catch {
            latch.open()
            await listener.shutdown(grace: .zero)
            throw error
        }
    }
}

extension GatewayAssembly {
    /// Opens the sockets without inherited descriptors.
    func listen() async throws -> Listener {
        try await Listener.start(sockets(), group: MultiThreadedEventLoopGroup.singleton, logger: logger)
    }
}

/// Returns the value, or fails if it is nil.
func requireValue<Value>(_ value: Value?) throws -> Value {
    guard let value else { throw HarnessFailure(description: "there is no value") }
    return value
}
