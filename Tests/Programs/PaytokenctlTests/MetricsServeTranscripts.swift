import DaemonAPI
import Foundation
import HTTPListener
import TestSupport
import Testing

@testable import paytokenctl

@Suite("Transcripts: metrics serve")
struct MetricsServeTranscripts {
    private static let exposition = "# HELP g G.\n# TYPE g gauge\ng 1\n"
    private static let text = "text/plain; version=0.0.4; charset=utf-8"

    private static func daemon(
        status: Int = 200, contentType: String = text, body: String = exposition,
        ending: FakeDaemon.Answer.Ending = .whole
    ) async throws -> FakeDaemon {
        var answer = FakeDaemon.Answer(status: status, contentType: contentType, body: Array(body.utf8))
        answer.ending = ending
        answer.isStreamed = true
        return try await FakeDaemon(["GET /metrics": answer])
    }

    /// Starts the server, and waits for the line that says that it serves.
    private static func serve(
        _ socket: String, listen: String = "127.0.0.1:0", environment: [String: String] = [:]
    ) async throws -> (server: RunningProgram, origin: String) {
        let server = try RunningProgram(
            Program.built("paytokenctl"), ["metrics", "serve", "--listen", listen, "--socket", socket],
            environment: environment)
        try await wait(for: "its address") { server.error.contains("serving metrics") || !server.isRunning }
        let address = server.error.split(separator: " ").first { $0.hasPrefix("address=") }?.dropFirst(8)
        return (server, "http://\(try #require(address, "\(server.error)"))")
    }

    private static func end(_ server: RunningProgram) async throws {
        server.signal(SIGTERM)
        let result = try await server.result()
        #expect(result.status == 0, "\(result)")
        #expect(result.output.isEmpty)
    }

    @Test(
        "serves the daemon's metrics to GET and HEAD, and requests nothing else from the daemon")
    func serves() async throws {
        let daemon = try await Self.daemon()
        let (server, origin) = try await Self.serve(daemon.path)
        let answer = try await Curl.request("/metrics?secret=1", socket: nil, origin: origin)
        #expect(answer.status == 200 && answer.text == Self.exposition)
        #expect(answer.header("Content-Type") == Self.text)
        let head = try await Curl.request("/metrics", socket: nil, origin: origin, arguments: ["--head"])
        #expect(head.status == 200 && head.header("Content-Length") == "\(Self.exposition.utf8.count)")
        // The server reuses an answer for a second, so it asks the daemon once or twice.
        let asked = daemon.asked.count
        #expect((1...2).contains(asked) && daemon.asked.allSatisfy { $0.target == "/metrics" })
        #expect(daemon.asked.allSatisfy { $0.method == "GET" && $0.body.isEmpty })
        for path in ["/", "/v1/status", "/metrics/", "/v1/decrypt", "//metrics", "/healthz"] {
            let answer = try await Curl.request(path, socket: nil, origin: origin)
            #expect(answer.status == 404, "\(path)")
            #expect(answer.text == "There is only /metrics here.\n")
            #expect(answer.header("Content-Type") == "text/plain; charset=utf-8")
        }
        let post = try await Curl.request("/metrics", socket: nil, origin: origin, body: Array("{}".utf8))
        #expect(post.status == 405 && post.header("Allow") == "GET, HEAD")
        #expect(post.text == "Only GET and HEAD are served here.\n")
        #expect(daemon.asked.count == asked)
        try await Self.end(server)
    }

    @Test("refuses a body with GET, a large head and input that is not HTTP before it asks the daemon")
    func hostile() async throws {
        let daemon = try await Self.daemon()
        let (server, origin) = try await Self.serve(daemon.path)
        let body = try await Curl.request(
            "/metrics", socket: nil, origin: origin, method: "GET", body: Array("{}".utf8))
        #expect(body.status == 413)
        let large = try await Curl.request(
            "/metrics", socket: nil, origin: origin,
            arguments: ["--header", "X: \(String(repeating: "x", count: 17_000))"])
        #expect(large.status == 413)
        let port = try #require(Int(origin.split(separator: ":").last ?? ""))
        let connection = try await RawConnection(port: port)
        try await connection.send("\u{16}\u{3}\u{1}\u{0}\r\n\r\n")
        try await connection.waitForEnd()
        #expect(connection.text.hasPrefix("HTTP/1.1 400 "))
        #expect(daemon.asked.isEmpty)
        try await Self.end(server)
    }

    @Test("limits one address to eight connections, and closes the oldest one for a new scrape")
    func crowded() async throws {
        let daemon = try await Self.daemon()
        let (server, origin) = try await Self.serve(daemon.path)
        let port = try #require(Int(origin.split(separator: ":").last ?? ""))
        var held: [RawConnection] = []
        for _ in 0..<8 { held.append(try await RawConnection(port: port)) }
        for round in 1...2 {
            let scrape = try await RawConnection(port: port)
            try await scrape.send("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
            #expect(try await scrape.answer().status == 200)
            // The server closes the oldest connection, and the order of its threads decides which one that is.
            try await wait(for: "the closing of the oldest connection") { held.count { $0.isClosed } == round }
            held.append(scrape)
        }
        #expect(held.count { $0.isClosed } == 2)
        let other = try await RawConnection(port: port, from: "127.0.0.2")
        try await other.send("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try await other.answer().status == 200)
        #expect(held.count { $0.isClosed } == 2, "another address displaces no connection while there is room")
        try await Self.end(server)
    }

    @Test("answers with 503 and the reason while the daemon cannot be reached, and logs the reason once")
    func away() async throws {
        let directory = try FreshDirectory()
        let (server, origin) = try await Self.serve(directory.path("s"))
        for _ in 0..<3 {
            let answer = try await Curl.request("/metrics", socket: nil, origin: origin)
            #expect(answer.status == 503)
            #expect(answer.text.hasPrefix("There is no socket at "), "\(answer)")
        }
        #expect(server.error.components(separatedBy: "the metrics cannot be fetched").count == 2, "\(server.error)")
        try await Self.end(server)
    }

    @Test(
        "answers with 503 if the daemon's answer is not a metrics exposition",
        arguments: [
            (403, text, "has the role", "roles: [monitor]"), (500, text, "a defect's text", "it answered 500"),
            (200, "application/json", "{}", "it answered 200"),
        ])
    func notForwarded(status: Int, type: String, body: String, says: String) async throws {
        let daemon = try await Self.daemon(status: status, contentType: type, body: body)
        let (server, origin) = try await Self.serve(daemon.path)
        let answer = try await Curl.request("/metrics", socket: nil, origin: origin)
        #expect(answer.status == 503)
        #expect(answer.text.contains(says) && !answer.text.contains(body), "\(answer)")
        try await Self.end(server)
    }

    @Test("exits with 64 for a name, an invalid address, and an address that other hosts could reach")
    func usage() async throws {
        for address in ["0.0.0.0:9464", "[::]:9464", "192.0.2.1:9464"] {
            let result = try await Command.paytokenctl(["metrics", "serve", "--listen", address])
            #expect(result.status == 64 && result.error.contains("--allow-remote"), "\(address): \(result)")
        }
        for address in ["localhost:9464", "127.0.0.1", "127.0.0.1:70000", "::1:9464", "127.0.0.1:-1", ""] {
            let result = try await Command.paytokenctl(["metrics", "serve", "--listen", address])
            #expect(result.status == 64, "\(address): \(result)")
        }
        // RFC 5737 reserves this address for documentation, so no host has it.
        let foreign = try await Command.paytokenctl(
            ["metrics", "serve", "--listen", "192.0.2.1:9464", "--allow-remote"])
        #expect(foreign.status == 78 && foreign.error.hasPrefix("192.0.2.1:9464: "), "\(foreign)")
    }

    @Test("exits with 75 if another server uses the address")
    func twice() async throws {
        let daemon = try await Self.daemon()
        let (server, origin) = try await Self.serve(daemon.path)
        let address = String(origin.dropFirst("http://".count))
        let second = try await Command.paytokenctl(["metrics", "serve", "--listen", address], socket: daemon.path)
        #expect(second.status == 75)
        #expect(second.error == "Another program listens at \(address) already.\n")
        try await Self.end(server)
    }

    @Test("notifies the service manager when it listens, and when it ends")
    func notifies() async throws {
        let directory = try FreshDirectory()
        let socket = try NotifySocket(path: directory.path("notify"))
        let (server, _) = try await Self.serve(
            directory.path("s"), environment: ["NOTIFY_SOCKET": directory.path("notify")])
        try await wait(for: "READY") { socket.next() == "READY=1" }
        try await Self.end(server)
        #expect(socket.next() == "STOPPING=1")
    }

    @Test("shares one answer of the daemon among all waiting scrapes, and limits how long they wait")
    func shared() async throws {
        let daemon = try await Self.daemon(ending: .open)
        let scrape = SharedScrape(
            socket: daemon.path, program: "paytokend", log: ServingLog(), patience: .milliseconds(300))
        let statuses = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<20 { group.addTask { await scrape.answer().status } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses == Array(repeating: 503, count: 20))
        #expect(daemon.asked.count == 1)
        #expect(await scrape.answer().status == 503)
        #expect(daemon.asked.count == 2, "the next answer is requested again")
    }

    @Test("reuses metrics for the configured time, and requests new ones afterwards", arguments: [3600, 0])
    func kept(seconds: Int) async throws {
        let daemon = try await Self.daemon()
        let scrape = SharedScrape(
            socket: daemon.path, program: "paytokend", log: ServingLog(), freshness: .seconds(seconds))
        for _ in 0..<5 { #expect(await scrape.answer().status == 200) }
        #expect(daemon.asked.count == (seconds == 0 ? 5 : 1))
    }
}
