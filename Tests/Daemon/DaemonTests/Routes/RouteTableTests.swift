import AccessControl
import DaemonAPI
import Foundation
import Glibc
import ServerProgram
import StrictJSON
import TestSupport
import Testing

@testable import Daemon
@testable import DaemonConfiguration
@testable import HTTPListener

/// The daemon's complete table of paths, assembled as at startup, but without open HSM tokens.
@Suite("Every path and its query")
struct RouteTableTests {
    private let fixture: ConfigurationFixture
    private let assembly: Assembly
    private var endpoints: [Endpoint] { assembly.router.routes }

    init() async throws {
        fixture = try ConfigurationFixture()
        let configuration = try fixture.load(
            ConfigurationFixture.minimum + """
                ledger: { url: "sqlite:\(fixture.directory.path("ledger.sqlite"))", node: node-1 }
                approvals: { people: 1 }
                access:
                  - { user: "\(geteuid())", roles: [decrypt, session, portal-read, monitor, audit, admin] }

                """)
        assembly = try await Assembly.make(configuration, logger: ListenerFixture.quiet)
    }

    /// The refusal's code and details; nil if the request was not refused as malformed.
    private func refusal(
        _ endpoint: Endpoint, _ query: [String: String]
    ) async throws -> (code: String?, details: String?) {
        let path = endpoint.path.split(separator: "/").map { $0.hasPrefix("{") ? "00000000" : $0 }
        let head = RequestHead(
            method: endpoint.method, path: "/" + path.joined(separator: "/"), query: query,
            contentType: endpoint.bodyLimit > 0 ? "application/json" : nil)
        let peer = PeerCredentials(uid: geteuid(), gid: getegid())
        let socket = try #require(endpoint.access.sockets.first)
        let answer: HTTPAnswer
        switch assembly.router.admit(head, from: DaemonPeer(credentials: peer, socket: socket)) {
        case .refuse(let refused): answer = refused
        case .accept(_, let respond): answer = await respond(Array("{}".utf8))
        }
        guard answer.status == 400, case .bytes(let body) = answer.body else { return (nil, nil) }
        let refusal = try #require(try JSONValue(parsing: body).objectValue)
        return (refusal["code"]?.stringValue, refusal["details"]?.stringValue)
    }

    @Test("gives JSON Web Tokens for Apple's API to the role portal-read only, and on the payments socket only")
    func portalWork() {
        let work = endpoints.filter { $0.path.hasPrefix(PortalRoutes.workPath) }
        #expect(work.count == 2)
        #expect(work.allSatisfy { $0.access.role == .portalRead && $0.access.sockets == [.payments] })
    }

    @Test("refuses an unknown parameter on every path")
    func unknownParameters() async throws {
        #expect(endpoints.count > 20)
        for endpoint in endpoints {
            for name in ["dry-run", "dryrun", "DRY_RUN", "since ", "4817499130000004"] {
                let (code, details) = try await refusal(endpoint, [name: "true"])
                #expect(code == "malformed_request", "\(endpoint.method) \(endpoint.path)")
                #expect(details?.contains(name) != true)
            }
        }
    }

    @Test("refuses dry_run on every path without a dry run, and any value but true and false on the other paths")
    func dryRun() async throws {
        for endpoint in endpoints {
            var refused = ["perhaps", "", "TRUE", "1"]
            if endpoint.access.dryRun != .offered { refused += ["true", "false"] }
            for value in refused {
                let (code, details) = try await refusal(endpoint, ["dry_run": value])
                #expect(code == "malformed_request", "\(endpoint.method) \(endpoint.path) \(value)")
                #expect(details == "dry_run", "\(endpoint.method) \(endpoint.path) \(value)")
            }
        }
        #expect(endpoints.allSatisfy { $0.method == "POST" || $0.access.dryRun != .offered })
    }

    /// The admin socket's response to a head that it refuses; nil if it accepts the head.
    private func refusal(_ method: String, _ path: String) -> HTTPAnswer? {
        let peer = PeerCredentials(uid: geteuid(), gid: getegid())
        let head = RequestHead(method: method, path: path)
        guard
            case .refuse(let answer) = assembly.router.admit(head, from: DaemonPeer(credentials: peer, socket: .admin))
        else { return nil }
        return answer
    }

    @Test(
        "answers a literal path before a path with braces that also matches",
        arguments: ["/v1/keys/import", "/v1/rotations/certificate"])
    func literalPaths(path: String) throws {
        for method in ["OPTIONS", "GET"] {
            let answer = try #require(refusal(method, path), "\(method) \(path) is answered")
            #expect(answer.status == 405)
            #expect(answer.headers.contains(.init(name: "Allow", value: "POST")), "\(answer.headers)")
        }
    }

    @Test("keeps an encoded slash within its segment")
    func encodedSlash() throws {
        for target in ["/v1%2Fstatus", "/v1/keys%2Fimport", "/v1/keys%2f00000000", "/v1%2Frotations/a"] {
            let path = try #require(RequestTarget(target)?.path)
            for method in ["GET", "POST"] {
                let answer = try #require(refusal(method, path), "\(method) \(target) is answered")
                #expect(answer.status == 404, "\(method) \(target)")
            }
        }
        let endpoint = try #require(endpoints.first { $0.path == "/v1/rotations/{merchant}" })
        let path = try #require(RequestTarget("/v1/rotations/a%2Fb%252Fc")?.path)
        #expect(endpoint.match(path) == ["a/b%2Fc"])
    }

    @Test("the table and the OpenAPI file name the same paths and the same parameters")
    func describedInOpenAPI() throws {
        let file = ProjectFiles.url("Sources/Service/DaemonAPI/openapi.json")
        let document = try JSONValue(parsing: Array(Data(contentsOf: file)))
        let paths = try #require(document.objectValue?["paths"]?.objectValue)
        var described: [String: Set<String>] = [:]
        for (path, operations) in paths.members {
            // The names in braces may differ between the table and the OpenAPI file.
            let path = path.replacing(/\{[^}]*\}/, with: "{}")
            for (method, operation) in operations.objectValue?.members ?? [] where ["get", "post"].contains(method) {
                let parameters = operation.objectValue?["parameters"]?.arrayValue ?? []
                described["\(method.uppercased()) \(path)"] = Set(
                    parameters.compactMap { parameter in
                        if parameter.objectValue?["$ref"]?.stringValue == "#/components/parameters/dryRun" {
                            return "dry_run"
                        }
                        let members = parameter.objectValue
                        return members?["in"] == .string("query") ? members?["name"]?.stringValue : nil
                    })
            }
        }
        var table: [String: Set<String>] = [:]
        for endpoint in endpoints {
            let path = endpoint.path.replacing(/\{[^}]*\}/, with: "{}")
            table["\(endpoint.method) \(path)"] = endpoint.access.query.union(
                endpoint.access.dryRun == .offered ? ["dry_run"] : [])
        }
        #expect(table == described)
    }
}
