import Foundation
import NIOSSL
import StrictJSON
import TestSupport
import Testing

@testable import Gateway

/// The program as a process, from its command line to its exit status.
@Suite("The program paytoken-gateway")
struct ProgramTests {
    private let directory: FreshDirectory
    private let program: String

    init() throws {
        directory = try FreshDirectory()
        program = try Program.built("paytoken-gateway")
        try directory.write(
            "listener: { address: \"127.0.0.1:0\" }\nadmin: { socket: a.sock }\n" + GatewayFixture.clients(),
            to: "c.yaml")
    }

    private func start() async throws -> RunningProgram {
        let running = try RunningProgram(program, ["--config", directory.path("c.yaml")])
        try await wait(for: "the gateway to serve, got \(running.error)") { running.error.contains("\"serving\"") }
        return running
    }

    /// Returns the members of the first log line with this message.
    private func logged(_ message: String, by running: RunningProgram) throws -> JSONObject {
        let line = running.error.split(separator: "\n").first { $0.contains("\"message\":\"\(message)\"") }
        return try #require(JSONValue(parsing: Array((line ?? "").utf8)).objectValue)
    }

    @Test("starts with the sample unchanged but for its socket's path")
    func sample() async throws {
        let sample = ProjectFiles.path("hsm-config/paytoken-gateway.yaml")
        let checked = try await Program.run(program, ["--config", sample, "--check"])
        #expect(checked.status == 0, "\(checked)")
        #expect(checked.error.contains("listener.address: warning: "))
        let text = try String(contentsOfFile: sample, encoding: .utf8)
            .replacing("/run/paytoken-gateway/admin.sock", with: directory.path("a.sock"))
            .replacing("127.0.0.1:8443", with: "127.0.0.1:0")
        try directory.write(text, to: "c.yaml")
        let running = try await start()
        #expect(try await Curl.request("/healthz", socket: directory.path("a.sock")).status == 200)
        running.signal(SIGTERM)
        #expect(try await running.result().status == 0)
    }

    @Test("exits with 78 at --check and lists every problem with its line, and does not start with such a file")
    func check() async throws {
        try directory.write("listener: { colour: blue }\nsesions: {}\n" + GatewayFixture.clients(), to: "c.yaml")
        for arguments in [["--check"], []] {
            let result = try await Program.run(program, ["--config", directory.path("c.yaml")] + arguments)
            #expect(result.status == 78)
            #expect(result.error.contains("c.yaml:1: listener.colour: unknown key"), "\(result)")
            #expect(result.error.contains("c.yaml:2: sesions: unknown key; did you mean sessions?"))
        }
        #expect(try await Program.run(program, ["--colour"]).status == 64)
        #expect(try await Program.run(program, ["--config", directory.path("absent"), "--check"]).status == 78)
    }

    @Test("serves over the network, reloads at SIGHUP, and exits with 0 at SIGTERM without leaving files")
    func life() async throws {
        let running = try await start()
        let address = try #require(logged("serving", by: running)["address"]?.stringValue)
        func whoami() async throws -> ProgramResult {
            try await Program.run(
                Program.installed("curl"),
                [
                    "--silent", "--max-time", "100", "--write-out", "%{http_code}", "--output", "/dev/null", "--header",
                    "Authorization: Bearer \(GatewayFixture.key)", "http://\(address)/nothing",
                ])
        }
        #expect(try await whoami().output == "404", "a known client learns that there is nothing")
        let without = try String(contentsOfFile: directory.path("c.yaml"), encoding: .utf8)
            .replacing(GatewayFixture.NewKeyHash.of(GatewayFixture.key), with: String(repeating: "00", count: 32))
        try directory.write(without, to: "c.yaml")
        running.signal(SIGHUP)
        try await wait(for: "the reload") { running.error.contains("configuration reloaded") }
        #expect(try await whoami().output == "401")
        let metrics = try await Curl.request("/metrics", socket: directory.path("a.sock"))
        #expect(metrics.metric("paytoken_gateway_insecure_settings", ["setting=\"no_tls\""]) == [1])
        running.signal(SIGTERM)
        #expect(try await running.result().status == 0)
        #expect(!FileManager.default.fileExists(atPath: directory.path("a.sock")))
        #expect(!running.error.contains(GatewayFixture.key))
    }

    @Test("keeps its memory use under 40 MB of pipelined requests from a client with a certificate")
    func memory() async throws {
        _ = try TestCertificates(in: directory)
        try directory.write(
            """
            listener:
              address: "127.0.0.1:0"
              tls: { certificate: server.pem, private_key: server.key, client_ca: ca.pem }
            admin: { socket: a.sock }
            limits: { requests_per_second: 100000, burst: 100000 }
            clients:
              - name: backend
                certificate_san: backend.shop.example
                merchants: ["*"]
                operations: [session]
                domains: [shop.example]

            """, to: "c.yaml")
        let running = try await start()
        let address = try #require(logged("serving", by: running)["address"]?.stringValue)
        let port = try #require(address.split(separator: ":").last.flatMap { Int($0) })
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.trustRoots = .file(directory.path("ca.pem"))
        configuration.certificateChain = try NIOSSLCertificate.fromPEMFile(directory.path("client.pem"))
            .map { .certificate($0) }
        configuration.privateKey = .privateKey(try NIOSSLPrivateKey(file: directory.path("client.key"), format: .pem))
        let context = try NIOSSLContext(configuration: configuration)
        // These requests come from a known client, because the gateway closes an unknown client's connection after one
        // 401.
        let growth = try await PipelinedRequests(to: "/merchant-sessions").growth(of: running.processIdentifier) {
            try await RawConnection(port: port) {
                try $0.addHandler(NIOSSLClientHandler(context: context, serverHostname: nil))
            }
        }
        #expect(growth < 12 << 10, "it grew by \(growth) kB")
        running.signal(SIGTERM)
        #expect(try await running.result().status == 0)
    }

    @Test("exits with 75 as a second instance on a live admin socket or address, and leaves the first one alone")
    func second() async throws {
        let running = try await start()
        let again = try await Program.run(program, ["--config", directory.path("c.yaml")])
        #expect(again.status == 75, "\(again)")
        let address = try #require(logged("serving", by: running)["address"]?.stringValue)
        let other = try FreshDirectory()
        try other.write(
            "listener: { address: \"\(address)\" }\nadmin: { socket: a.sock }\n" + GatewayFixture.clients(),
            to: "c.yaml")
        let there = try await Program.run(program, ["--config", other.path("c.yaml")])
        #expect(there.status == 75, "\(there)")
        #expect(!FileManager.default.fileExists(atPath: other.path("a.sock")))
        #expect(try await Curl.request("/healthz", socket: directory.path("a.sock")).status == 200)
        running.signal(SIGTERM)
        #expect(try await running.result().status == 0)
    }

    @Test(
        "exports metrics that pass promtool check metrics",
        .enabled(if: (try? Program.installed("promtool")) != nil, "promtool is in Debian's package prometheus"))
    func promtool() async throws {
        let running = try await start()
        let metrics = try await Curl.request("/metrics", socket: directory.path("a.sock"))
        let checked = try await Program.run(
            Program.installed("promtool"), ["check", "metrics"], input: metrics.body)
        #expect(checked.status == 0, "\(checked)")
        running.signal(SIGTERM)
        #expect(try await running.result().status == 0)
    }

    @Test("prints a key and its hash with new-key, as text or JSON, and answers --version and --help")
    func newKey() async throws {
        let table = try await Program.run(program, ["new-key"])
        #expect(table.status == 0 && table.output.hasPrefix("key         ptgw_"))
        let json = try await Program.run(program, ["new-key", "--output", "json"])
        let made = try #require(JSONValue(parsing: json.outputBytes.filter { $0 != 10 }).objectValue)
        let key = try #require(made["key"]?.stringValue)
        #expect(made["key_sha256"]?.stringValue == GatewayFixture.NewKeyHash.of(key))
        #expect(try await Program.run(program, ["--version"]).output.hasPrefix("paytoken-gateway 0."))
        #expect(try await Program.run(program, ["--help"]).output.contains("USAGE"))
    }
}
