import Foundation
import Glibc
import Logging
import Payments
import ServerProgram
import TestSupport
import Testing

@testable import AccessControl
@testable import Gateway
@testable import HTTPListener
@testable import HostSystem

@Suite("Roles on the admin socket")
struct AdminAccessTests {
    private static let overflow = OverflowIdentifiers(uid: 65_534, gid: 65_534)
    private static let monitoring = Account(name: "monitoring", id: 700)
    private static let support = Account(name: "support", id: 701)
    private static let accountant = Account(name: "accountant", id: 1_701)

    private static let rules = AdminAccess(
        rules: [
            .init(user: accountant, roles: [.resolve]), .init(group: support, roles: [.support]),
            .init(group: monitoring, roles: [.monitor]),
        ], overflow: overflow)

    /// The admin socket's paths for peers without a rule.
    private static let open = ["GET /healthz", "GET /readyz"]
    private static let monitored = open + ["GET /metrics", "GET /v1/status"]
    private static let supported =
        monitored + ["POST /v1/session-check", "POST /v1/payments/list", "GET /v1/payments/{transactionId}"]
    private static let all = supported + ["POST /v1/payments/{transactionId}/resolve"]

    /// Returns the admin paths to which a gateway with payments and sessions admits the peer. Fails the test unless
    /// every other path answers `forbidden`.
    private func admitted(_ access: AdminAccess, _ peer: PeerCredentials) async throws -> Set<String> {
        try await GatewayFixture(testRoutes: false).use { gateway in
            let configuration = gateway.assembly.configuration
            let paytokend = PaytokendCalls(configuration.paytokend)
            let sessions = SessionRoutes(
                sessions: try .made(configuration, paytokend: paytokend, observer: RecordedSessions()),
                maxRequestBytes: configuration.listener.maxRequestBytes)
            let store = try SQLitePaymentStore(path: gateway.directory.path("payments.sqlite"))
            let payments = PaymentService(
                store: store, paytokend: paytokend, processors: ProcessorDirectory(processors: []),
                deadline: .seconds(1), configuration,
                logger: Logger(label: "test"))
            let router = AdminRouter(
                routes: gateway.assembly.adminRouter.routes + sessions.adminRoutes + payments.adminRoutes,
                rules: AdminRules(access: { access }), log: gateway.assembly.adminRouter.log)
            var admitted: Set<String> = []
            for route in router.routes {
                let path = route.path.replacing("{transactionId}", with: String(repeating: "0f", count: 32))
                let head = RequestHead(method: route.method, path: path, contentType: "application/json")
                switch router.admit(head, from: peer) {
                case .accept: admitted.insert("\(route.method) \(route.path)")
                case .refuse(let answer):
                    #expect(answer.status == 403, "\(route.method) \(route.path)")
                }
            }
            await store.close()
            return admitted
        }
    }

    @Test(
        "permits what a role includes and implies; without a rule only health and readiness",
        arguments: [
            (PeerCredentials(uid: 1_701, gid: 1_701, groups: [700]), all),
            (PeerCredentials(uid: 1_702, gid: 701), supported),
            (PeerCredentials(uid: 1_703, gid: 1_703, groups: [701, 700]), supported),
            (PeerCredentials(uid: 1_704, gid: 1_704, groups: [700]), monitored),
            (PeerCredentials(uid: 1_705, gid: 1_705), open),
            // No rule names root, so root has no more rights than another peer.
            (PeerCredentials(uid: 0, gid: 0), open),
            (PeerCredentials(uid: 65_534, gid: 65_534), open),
        ])
    func roles(peer: PeerCredentials, expected: [String]) async throws {
        #expect(try await admitted(Self.rules, peer) == Set(expected))
    }

    @Test(
        "gives root and the gateway's user all roles without rules, and the socket's group monitor only",
        arguments: [
            (PeerCredentials(uid: 0, gid: 0), all), (PeerCredentials(uid: 990, gid: 990), all),
            (PeerCredentials(uid: 1_704, gid: 1_704, groups: [700]), monitored),
            (PeerCredentials(uid: 1_705, gid: 1_705, groups: [990]), open),
        ])
    func standard(peer: PeerCredentials, expected: [String]) async throws {
        let access = AdminAccess.standard(
            group: Self.monitoring, ownUID: 990, ownGID: 990, overflow: Self.overflow)
        #expect(try await admitted(access, peer) == Set(expected))
        let ungrouped = AdminAccess.standard(group: nil, ownUID: 990, ownGID: 990, overflow: Self.overflow)
        #expect(ungrouped.rule(for: PeerCredentials(uid: 1_705, gid: 1_705, groups: [990]))?.roles == [.monitor])
    }

    @Test("names the role in a refusal, logs the account at intervals, and gives reasons only to peers with a rule")
    func refusal() async throws {
        try await GatewayFixture(
            admin: "{ socket: a.sock, access: [{ user: \"4242\", roles: [monitor] }] }", testRoutes: false
        ).use { gateway in
            func admin(_ path: String) async throws -> CurlAnswer {
                try await Curl.request(path, socket: gateway.adminSocket)
            }
            for _ in 0..<3 {
                let refused = try await admin("/metrics")
                #expect(refused.status == 403 && refused.text.contains("admin.access"))
                #expect(refused.text.contains("uid \(geteuid())"))
            }
            let lines = gateway.log.current.filter { $0.hasPrefix("refused") && $0.contains("/metrics") }
            #expect(lines.count == 1 && lines.allSatisfy { $0.contains("peer.uid=\(geteuid())") })
            // Other refusals that need only the request's head, such as 405, are also logged once.
            for _ in 0..<3 {
                let method = try await Curl.request("/healthz", socket: gateway.adminSocket, body: [])
                #expect(method.status == 405)
            }
            #expect(gateway.log.current.count { $0.contains("request.outcome=method_not_allowed") } == 1)
            let ready = try await admin("/readyz")
            #expect(ready.status == 503 && ready.text.contains("\"reasons\":[]"))

            // After a reload, the peer has the role at its next request.
            let text = try String(contentsOfFile: gateway.configurationFile, encoding: .utf8)
            try gateway.directory.write(text.replacing("\"4242\"", with: "\"\(geteuid())\""), to: "c.yaml")
            await gateway.reload()
            #expect(!gateway.log.current.contains { $0.contains("only after a restart") })
            #expect(try await admin("/metrics").status == 200)
            #expect(try await admin("/readyz").text.contains("unreachable"))
        }
    }

    @Test("answers a peer without a rule with the last result, without a question to paytokend")
    func cachedVerdict() async throws {
        try await GatewayFixture(
            admin: "{ socket: a.sock, access: [{ user: \"4242\", roles: [monitor] }] }", testRoutes: false
        ).use { gateway in
            let (status, asked) = (Shared(200), Shared(0))
            let paytokend = try await SimulatedPaytokend(at: gateway.directory.path("p.sock")) { _, _ in
                asked.increment()
                return (status.current, Array("{}".utf8))
            }
            func ready() async throws -> Int? {
                try await Curl.request("/readyz", socket: gateway.adminSocket).status
            }
            #expect(try await ready() == 503, "nothing is known yet")
            #expect(asked.current == 0)
            #expect(await gateway.assembly.monitoring.notReady().isEmpty)
            status.change { $0 = 503 }
            for _ in 0..<3 { #expect(try await ready() == 200) }
            #expect(asked.current == 1)
            // The gateway reuses a result for one second.
            try await wait(for: "another answer") { await gateway.assembly.monitoring.notReady().count == 1 }
            #expect(try await ready() == 503)
            withExtendedLifetime(paytokend) {}
        }
    }

    @Test("limits the accounts that admin.access does not name to a share of the socket's places")
    func shares() async throws {
        try await GatewayFixture().use { gateway in
            var ends: [CInt] = [-1, -1]
            #expect(unsafe socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0)
            defer { for end in ends { close(end) } }
            func sources(_ rules: [AdminAccess.Rule]) throws -> [ConnectionBound] {
                let router = AdminRouter(
                    routes: [], rules: AdminRules(access: { AdminAccess(rules: rules) }),
                    log: gateway.assembly.adminRouter.log)
                return try AdminConnections(router: router, instruments: gateway.assembly.instruments)
                    .accept(ends[0], from: .user(geteuid())).wider
            }
            let group = AdminAccess.Rule(group: Account(name: "g", id: getegid()), roles: [.monitor])
            let user = AdminAccess.Rule(user: Account(name: "u", id: geteuid()), roles: [.monitor])
            let (unmatched, grouped, named) = (try sources([]), try sources([group]), try sources([user]))
            let all = ConnectionBound(.unnamedAccounts, most: 48)
            #expect(unmatched == [ConnectionBound(.accounts("unmatched"), most: 16), all])
            #expect(grouped == [ConnectionBound(.accounts("group \(getegid())"), most: 32), all])
            #expect(named.isEmpty)
        }
    }

    @Test(
        "lets an account of the socket's group read metrics, by the kernel's credentials",
        .enabled(if: geteuid() == 0, "only root can take another account"))
    func groupOfSocket() async throws {
        try await GatewayFixture(
            admin: "{ socket: a.sock, mode: \"0666\", group: \"23456\" }", testRoutes: false
        ).use { gateway in
            unsafe _ = chmod(gateway.directory.path, 0o755)
            func status(_ path: String, gid: Int) async throws -> String {
                try await Program.run(
                    Program.installed("setpriv"),
                    [
                        "--reuid=12345", "--regid=\(gid)", "--clear-groups", Program.installed("curl"), "--silent",
                        "--max-time", "10", "--output", "/dev/null", "--write-out", "%{http_code}", "--unix-socket",
                        gateway.adminSocket, "http://localhost\(path)",
                    ]
                ).output
            }
            let answers = [
                try await status("/metrics", gid: 23_456), try await status("/metrics", gid: 23_457),
                try await status("/healthz", gid: 23_457),
            ]
            #expect(answers == ["200", "403", "200"])
        }
    }

    @Test(
        "records who resolved a payment, with account and login uid",
        arguments: [
            (LoginUID.unset, "root (0)"), (.unreadable, "root (0), login uid unreadable"),
            (.set(4_000_001), "root (0), logged in as 4000001 (4000001)"),
        ])
    func resolution(login: LoginUID, person: String) async throws {
        let directory = try FreshDirectory()
        let store = try SQLitePaymentStore(path: directory.path("payments.sqlite"))
        let digest = [UInt8](repeating: 7, count: 32)
        let now = Date(timeIntervalSince1970: 1_790_000_000)
        let arrival = PaymentArrival(
            key: .init(client: "shop", tokenDigest: digest), purpose: .payment, requestDigest: digest, orderId: nil,
            statedTransaction: nil, attempt: PaymentAttempt(owner: "gateway", deadline: now))
        guard case .begun(let payment, _) = try await store.begin(arrival, at: now),
            case .claimed(let claimed) = try await store.claim(
                payment,
                PaymentTransaction(identifier: digest, merchantIdentifier: "m", amount: nil, processor: "acquirer"),
                as: .submitting, nil, at: now)
        else { throw CancellationError() }
        _ = try await store.storeOutcome(claimed, as: .pending, PaymentOutcome(reason: "no_answer_in_time"), at: now)
        let route = try #require(
            PaymentAdministration(store: store).routes.first { $0.path.hasSuffix("/resolve") })
        _ = try await route.respond(
            AdminRequest(
                peer: PeerCredentials(uid: 0, gid: 0, loginUID: login), isMatched: true,
                pathArguments: [String(repeating: "07", count: 32)],
                body: Array(#"{"status":"captured","reason":"in the acquirer's report"}"#.utf8),
                trace: .init(traceparent: [])))
        #expect(try await store.history(of: payment.key).last?.by == person)
        await store.close()
    }
}
