import DaemonAPI
import Foundation
import GatewayAPI
import Logging
import TestSupport
import Testing

@testable import Gateway
@testable import HTTPListener

/// `POST /merchant-sessions` and `POST /v1/session-check` through the gateway's sockets.
@Suite struct SessionRouteTests {
    private static let body = """
        {"merchantIdentifier":"\(SoftwareIdentities.merchantIdentifier)","displayName":"Bücher & more",\
        "initiative":"web","initiativeContext":"shop.example"}
        """

    @Test func theSessionIsPassedOnAndNotStored() async throws {
        let gateway = try await SessionGateway()
        let answer = try await gateway.post(Self.body)
        #expect(answer.status == 200)
        #expect(answer.body == Array(SimulatedApple.session.utf8))
        #expect(answer.header("Content-Type") == "application/json")
        #expect(answer.header("Cache-Control") == "no-store")
        // Neither the content of the request nor that of the response is in the log.
        let log = gateway.log.current.joined(separator: "\n")
        for text in ["Bücher", "SSH", "epochTimestamp", SessionGateway.key] { #expect(!log.contains(text)) }
        #expect(log.contains("/merchant-sessions"))
        await gateway.stop()
    }

    @Test(arguments: [
        (#""merchantIdentifier":"merchant.com.other""#, "merchantIdentifier"),
        (#""initiativeContext":"other.example""#, "initiativeContext"),
        (#""initiativeContext":"evil-shop.example""#, "initiativeContext"),
    ])
    func whatTheClientMayNotUseIsForbidden(member: String, name: String) async throws {
        let gateway = try await SessionGateway()
        let known = try #require(Self.body.firstMatch(of: try Regex("\"\(name)\":\"[^\"]*\"")))
        let answer = try await gateway.post(Self.body.replacingCharacters(in: known.range, with: member))
        #expect(answer.status == 403 && answer.code == "forbidden")
        #expect(answer.string("details") == name)
        #expect(gateway.apple.connectionCount == 0)
        await gateway.stop()
    }

    @Test func aMessagingURLsHostIsOneOfTheClientsDomains() async throws {
        let gateway = try await SessionGateway()
        let messaging = Self.body.replacing(#""web""#, with: #""messaging""#)
        let own = messaging.replacing("shop.example", with: "https://pay.shop.example/x")
        #expect(try await gateway.post(own).status == 200)
        let other = messaging.replacing("shop.example", with: "https://pay.other.example/x")
        #expect(try await gateway.post(other).status == 403)
        let app = Self.body.replacing(#""web""#, with: #""in_app""#).replacing("shop.example", with: "ABCDE12345")
        #expect(try await gateway.post(app).status == 200)
        await gateway.stop()
    }

    @Test func aMalformedBodyIsRefusedBeforeAnythingIsAsked() async throws {
        let gateway = try await SessionGateway()
        for body in ["", "[]", Self.body.dropLast() + #","validationURL":"https://evil.example/"}"#] as [String] {
            let answer = try await gateway.post(body)
            #expect(answer.status == 400 && answer.code == "malformed_request")
        }
        let large = Self.body.dropLast() + #","displayName":"\#(String(repeating: "a", count: 5000))"}"#
        #expect(try await gateway.post(String(large)).status == 413)
        #expect(gateway.apple.connectionCount == 0)
        await gateway.stop()
    }

    @Test func aSmallerLimitOfTheListenerIsKept() async throws {
        let gateway = try await SessionGateway(maxRequestBytes: 1_024)
        let large = Self.body.dropLast() + #","x":"\#(String(repeating: "a", count: 1_100))"}"#
        #expect(try await gateway.post(String(large)).status == 413)
        #expect(try await gateway.post(Self.body).status == 200)
        await gateway.stop()
    }

    @Test func aPlaceThatIsFreedIsOne() {
        let slots = ClientSlots(2)
        for _ in 0..<2 { #expect(slots.take("shop")) }
        #expect(!slots.take("shop"))
        #expect(slots.take("other"))
        slots.leave("shop")
        #expect(slots.take("shop"))
        #expect(!slots.take("shop"))
    }

    @Test func aClientHasSoManySessionsAtOnceAndAnotherHasItsOwn() async throws {
        let gateway = try await SessionGateway()
        gateway.identities.latch.close()
        let most = SessionRoutes.maximumOfClient
        let held = (0..<most).map { _ in Begun { try? await gateway.post(Self.body, isHeld: true).status } }
        try await wait(for: "all signatures to be asked for") { gateway.identities.latch.waiting == most }
        let more = try await gateway.post(Self.body, isHeld: true)
        #expect(more.status == 429 && more.code == "rate_limited" && more.header("Retry-After") == "1")
        let other = Begun {
            try? await gateway.post(Self.body, key: SessionGateway.otherKey, isHeld: true).status
        }
        try await wait(for: "another client's signature to be asked for") {
            gateway.identities.latch.waiting == most + 1
        }
        gateway.identities.latch.open()
        for session in held + [other] { #expect(try await session.value() == 200) }
        // The completed sessions have freed their slots.
        #expect(try await gateway.post(Self.body).status == 200)
        await gateway.stop()
    }

    @Test func applesRefusalIsAnsweredWithItsMeaning() async throws {
        let gateway = try await SessionGateway([.answer(417, [], "Apple's own words"), .answer(503)])
        let mismatch = try await gateway.post(Self.body)
        #expect(mismatch.status == 422 && mismatch.code == "merchant_not_accepted")
        #expect(mismatch.string("details") == "status 417")
        #expect(!mismatch.text.contains("Apple's own words"))
        let away = try await gateway.post(Self.body)
        #expect(away.status == 503 && away.code == "apple_unavailable" && away.header("Retry-After") == "2")
        await gateway.stop()
    }

    @Test func aCheckIsForTheAdminSocketAlone() async throws {
        let gateway = try await SessionGateway([.answer(417)])
        let body = Array(
            #"{"merchantIdentifier":"\#(SoftwareIdentities.merchantIdentifier)","domain":"shop.example"}"#.utf8)
        let answer = try await Curl.request("/v1/session-check", socket: gateway.adminSocket, body: body)
        #expect(answer.status == 200)
        #expect(answer.string("code") == "merchant_not_accepted")
        let steps = try JSONCoding.decode(SessionCheckAnswer.self, from: answer.body).steps
        #expect(steps.last?.outcome == .failed)
        #expect(try await gateway.post(Self.body, to: "/v1/session-check").status == 404)
        await gateway.stop()
    }

    @Test func metricsTellHowSessionsGo() async throws {
        let gateway = try await SessionGateway([.session, .session, .answer(417)])
        for _ in 0..<3 { _ = try await gateway.post(Self.body) }
        let metrics = try await Curl.request("/metrics", socket: gateway.adminSocket)
        #expect(metrics.metric("paytoken_gateway_sessions_total", ["outcome=\"ok\""]) == [2])
        #expect(metrics.metric("paytoken_gateway_sessions_total", ["outcome=\"merchant_not_accepted\""]) == [1])
        #expect(metrics.metric("paytoken_gateway_apple_handshakes_total", ["outcome=\"ok\""]) == [1])
        #expect(metrics.metric("paytoken_gateway_signatures_total", ["outcome=\"ok\""]) == [1])
        #expect(metrics.metric("paytoken_gateway_apple_requests_total", ["connection=\"new\""]) == [1])
        #expect(metrics.metric("paytoken_gateway_apple_requests_total", ["connection=\"reused\""]) == [2])
        #expect(metrics.metric("paytoken_gateway_session_seconds_count") == [3])
        #expect(metrics.metric("paytoken_gateway_identity_not_after_seconds", ["merchant="]).count == 1)
        await gateway.stop()
    }

    @Test func aCertificateThatEndsSoonIsWarnedAboutOnceADay() throws {
        let lines = Shared<[String]>([])
        let metrics = SessionMetrics(logger: Logger(label: "test") { _ in CapturedLog(lines: lines) })
        let now = Date()
        let day: TimeInterval = 86_400
        metrics.identityUsed(merchantIdentifier: "merchant.com.example", ends: now + 31 * day, now: now)
        #expect(lines.current.isEmpty)
        for _ in 0..<3 {
            metrics.identityUsed(merchantIdentifier: "merchant.com.example", ends: now + 20.5 * day, now: now)
        }
        #expect(lines.current.count == 1)
        #expect(lines.current[0].contains("days_left=20"))
        metrics.identityUsed(merchantIdentifier: "merchant.com.example", ends: now + 20.5 * day, now: now + day)
        metrics.identityUsed(merchantIdentifier: "merchant.com.other", ends: now + 20.5 * day, now: now)
        #expect(lines.current.count == 3)
    }
}

/// A gateway with the session routes in front of a simulated Apple.
struct SessionGateway {
    static let key = "ptgw_of-the-shop"

    static let otherKey = "ptgw_of-another"

    let apple: SimulatedApple
    let identities: SoftwareIdentities
    let log = Shared<[String]>([])
    private let directory: FreshDirectory
    private let listener: Listener

    var adminSocket: String { directory.path("a.sock") }

    /// - Parameter maxRequestBytes: `listener.max_request_bytes`.
    init(
        _ behaviours: [SimulatedApple.Behaviour] = [.session], maxRequestBytes: Int = 131_072
    ) async throws {
        identities = try await SoftwareIdentities.usual()
        apple = try await SimulatedApple(behaviours)
        directory = try FreshDirectory()
        try directory.write(
            """
            listener: { address: "unix:g.sock", max_request_bytes: \(maxRequestBytes) }
            admin: { socket: a.sock }
            paytokend: { socket: p.sock }
            limits: { request_timeout: 60s, authentication_timeout: 60s, idle_timeout: 10m }
            sessions:
              test_server: \(apple.address)
              trust: ["\(try await SimulatedAppleCertificates.shared.value.root)"]
            clients:
              - name: shop
                key_sha256: "\(GatewayFixture.NewKeyHash.of(Self.key))"
                merchants: ["merchant.com.example.*"]
                operations: [session]
                domains: [shop.example, "*.shop.example"]
              - name: other
                key_sha256: "\(GatewayFixture.NewKeyHash.of(Self.otherKey))"
                merchants: ["merchant.com.example.*"]
                operations: [session]
                domains: [shop.example]
            """, to: "c.yaml")
        let configuration = try GatewayConfiguration.load(path: directory.path("c.yaml"), environment: [:])
        let lines = log
        let logger = Logger(label: "test") { _ in CapturedLog(lines: lines) }
        let metrics = SessionMetrics(logger: logger)
        let routes = SessionRoutes(
            sessions: MerchantSessions(
                endpoint: try AppleEndpoint(configuration.sessions), identities: identities,
                observer: metrics, deadline: .seconds(120)),
            maxRequestBytes: configuration.listener.maxRequestBytes)
        let assembly = try GatewayAssembly.make(
            configuration, logger: logger, routes: routes.routes, adminRoutes: routes.adminRoutes,
            instruments: [metrics])
        listener = try await assembly.listen()
    }

    /// - Parameter isHeld: true if the response waits for another step of the test, so that curl must not wait for its
    ///   turn among the tests' programs.
    func post(
        _ body: String, to path: String = "/merchant-sessions", key: String = Self.key, isHeld: Bool = false
    ) async throws -> CurlAnswer {
        try await Curl.request(
            path, socket: directory.path("g.sock"), body: Array(body.utf8),
            arguments: ["--header", "Authorization: Bearer \(key)"], waitsForTurn: !isHeld)
    }

    func stop() async { await listener.shutdown(grace: .seconds(20)) }
}
