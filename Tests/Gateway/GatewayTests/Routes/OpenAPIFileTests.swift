import AccessControl
import Foundation
import HTTPListener
import Logging
import Payments
import ServerProgram
import StrictJSON
import TestSupport
import Testing

@testable import Gateway

/// Compares Sources/Gateway/Gateway/openapi.json with the code. `scripts/check-openapi` checks the file itself.
@Suite("The gateway's OpenAPI file")
struct GatewayOpenAPITests {
    private let document: JSONObject

    init() throws {
        let file = ProjectFiles.url("Sources/Gateway/Gateway/openapi.json")
        document = try #require(
            try JSONValue(parsing: Array(Data(contentsOf: file)), limits: JSONLimits(maximumDepth: 64)).objectValue)
    }

    @Test("lists every code in the file's table with its row's status")
    func statuses() throws {
        let schema = try #require(
            document["components"]?.objectValue?["schemas"]?.objectValue?["RefusalCode"]?.objectValue)
        let rows = try #require(schema["description"]?.stringValue).split(separator: "\n")
        for code in GatewayCode.allCases {
            let row = "| \(code.statusAndRetryAfter.status) | \(code.rawValue) |"
            #expect(rows.contains { $0.hasPrefix(row) }, "\(row) is missing")
        }
        #expect(rows.count { $0.hasPrefix("| 4") || $0.hasPrefix("| 5") } == GatewayCode.allCases.count)
    }

    @Test("matches a path without braces before those with braces")
    func literalPaths() {
        let instruments = GatewayInstruments()
        let router = AdminRouter(
            routes: ["/v1/payments/{transactionId}", "/v1/payments/list"].map { path in
                AdminRoute(path.hasSuffix("}") ? "GET" : "POST", path, access: nil) { _ throws(GatewayRefusal) in
                    throw .defect
                }
            }, rules: AdminRules(access: { .standard(group: nil) }),
            log: RequestLog(
                requests: instruments.requests, seconds: instruments.requestSeconds, logger: Logger(label: "test")))
        let admission = { (path: String) in
            router.admit(RequestHead(method: "GET", path: path), from: PeerCredentials(uid: 0, gid: 0))
        }
        guard case .refuse(let answer) = admission("/v1/payments/list"), case .accept = admission("/v1/payments/0f")
        else {
            Issue.record("the path with braces is asked first")
            return
        }
        #expect(answer.headers.contains(.init(name: "Allow", value: "POST")))
    }

    @Test("describes exactly the gateway's paths")
    func paths() async throws {
        let described = try #require(document["paths"]?.objectValue).members.flatMap { path, item in
            (item.objectValue?.members ?? []).map { "\($0.name.uppercased()) \(path)" }
        }
        try await GatewayFixture(testRoutes: false).use { gateway in
            // The routes are assembled as in the program.
            let paytokend = PaytokendCalls(gateway.assembly.configuration.paytokend)
            let sessions = SessionRoutes(
                sessions: try .made(gateway.assembly.configuration, paytokend: paytokend, observer: RecordedSessions()),
                maxRequestBytes: gateway.assembly.configuration.listener.maxRequestBytes)
            let directory = try FreshDirectory()
            let payments = PaymentService(
                store: try SQLitePaymentStore(path: directory.path("payments.sqlite")),
                paytokend: paytokend, processors: ProcessorDirectory(processors: []), deadline: .seconds(1),
                gateway.assembly.configuration, logger: Logger(label: "test"))
            let served =
                (gateway.assembly.router.routes + sessions.routes + payments.routes).map { "\($0.method) \($0.path)" }
                + (gateway.assembly.adminRouter.routes + sessions.adminRoutes + payments.adminRoutes)
                .map { "\($0.method) \($0.path)" }
            #expect(Set(described) == Set(served))
        }
    }

    @Test("gives real answers as described")
    func answers() async throws {
        let directory = try FreshDirectory()
        try await GatewayFixture(testRoutes: false).use { gateway in
            var lines: [String] = []
            for (path, socket) in [
                ("/healthz", gateway.adminSocket), ("/readyz", gateway.adminSocket),
                ("/v1/status", gateway.adminSocket),
                ("/v1/status?a=b", gateway.adminSocket), ("/nothing", gateway.adminSocket),
            ] {
                let answer = try await Curl.request(path, socket: socket)
                var writer = JSONWriter(capacity: 1024)
                writer.beginObject()
                writer.member("method", "GET")
                writer.member("path", path)
                writer.member("status", "\(answer.status)")
                writer.member("body", answer.text)
                writer.endObject()
                lines.append(String(decoding: writer.bytes, as: UTF8.self))
            }
            try directory.write(lines.joined(separator: "\n") + "\n", to: "answers")
        }
        let checked = try await Program.run(
            ProjectFiles.path("scripts/check-openapi"),
            ["--gateway", "--lines", directory.path("answers")])
        #expect(checked.status == 0, "\(checked)")
    }
}
