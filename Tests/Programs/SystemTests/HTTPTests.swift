import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The listener's answers to requests that are wrong, slow, huge or not HTTP.
@Suite struct HTTPTests {
    private func post(_ body: [UInt8], contentType: String? = "application/json") async throws -> CurlAnswer {
        try await Curl.request(
            "/v1/decrypt", socket: SharedDaemon.harness.socket, body: body, contentType: contentType)
    }

    @Test("answers an unknown path with 404, and an unsupported method with 405")
    func routing() async throws {
        let socket = try await SharedDaemon.harness.socket
        let unknown = try await Curl.request("/v1/nothing", socket: socket)
        #expect(unknown.status == 404 && unknown.code == "not_found", "\(unknown)")
        let method = try await Curl.request("/v1/decrypt", socket: socket)
        #expect(method.status == 405 && method.code == "method_not_allowed", "\(method)")
        let administration = try await Curl.request("/v1/status", socket: socket)
        #expect(administration.status == 404, "\(administration)")
    }

    @Test(
        "answers a body whose Content-Type is not JSON with 415",
        arguments: ["text/plain", "application/x-www-form-urlencoded"])
    func mediaType(type: String) async throws {
        let answer = try await post(SharedForge.paymentToken().decryptBody(), contentType: type)
        #expect(answer.status == 415 && answer.code == "unsupported_media_type", "\(answer)")
    }

    @Test("accepts JSON with a charset, any Host header and chunked bodies")
    func acceptedVariants() async throws {
        let answer = try await Curl.request(
            "/v1/decrypt", socket: SharedDaemon.harness.socket, body: SharedForge.paymentToken().decryptBody(),
            contentType: "application/json; charset=utf-8",
            arguments: ["--header", "Host: anything.example:99", "--header", "Transfer-Encoding: chunked"])
        #expect(answer.status == 200, "\(answer)")
    }

    @Test("refuses a body of any size or depth that is not one JSON object as malformed_request")
    func notOneObject() async throws {
        var random = SystemRandomNumberGenerator()
        let bodies: [[UInt8]] = [
            (0..<65_536).map { _ in UInt8.random(in: .min ... .max, using: &random) }, [],
            Array(repeating: UInt8(ascii: "["), count: 30_000), Array("hello".utf8), Array("[]".utf8),
            Array("{}{}".utf8), Array("null".utf8), [0xef, 0xbb, 0xbf] + Array("{}".utf8),
        ]
        for body in bodies {
            let answer = try await post(body)
            #expect(answer.status == 400 && answer.code == "malformed_request", "\(body.prefix(20)): \(answer)")
        }
    }

    @Test("refuses a request without `token`, or with unknown members, duplicate members or wrong types")
    func wrongMembers() async throws {
        let paymentToken = String(decoding: try SharedForge.paymentToken().paymentToken, as: UTF8.self)
        for body in [
            "{}", "{\"token\":\(paymentToken),\"extra\":1}", "{\"token\":\(paymentToken),\"reference\":1}",
            "{\"token\":\(paymentToken),\"expected\":[]}", "{\"token\":\(paymentToken),\"expected\":{\"amount\":1}}",
            "{\"token\":\(paymentToken),\"reference\":\"a\",\"reference\":\"b\"}",
            "{\"token\":\(paymentToken),\"expected\":{\"transactionAmount\":\"1099\"}}",
            "{\"token\":\(paymentToken),\"expected\":{\"currencyCode\":840}}",
        ] {
            let answer = try await post(Array(body.utf8))
            #expect(answer.status == 400 && answer.code == "malformed_request", "\(body.suffix(60)): \(answer)")
        }
        // For a fault inside the payment token, the code may also be malformed_token.
        for body in ["{\"token\":\"text\"}", "{\"token\":{}}", "{\"token\":{\"paymentData\":[]}}"] {
            let answer = try await post(Array(body.utf8))
            #expect(answer.status == 400, "\(body): \(answer)")
            #expect(["malformed_request", "malformed_token"].contains(answer.code ?? ""), "\(body): \(answer)")
        }
    }

    @Test("answers an oversized body, with Content-Length or chunked, with 413, and closes the connection")
    func tooLarge() async throws {
        let harness = try await SharedDaemon.harness
        let large = [UInt8](repeating: UInt8(ascii: " "), count: 65_537)
        for arguments in [[], ["--header", "Transfer-Encoding: chunked"]] {
            let answer = try await Curl.request(
                "/v1/decrypt", socket: harness.socket, body: large, arguments: arguments)
            #expect(answer.status == 413 && answer.code == "request_too_large", "\(answer)")
        }
        // The daemon refuses the request after its head, without waiting for its body.
        let raw = try await RawConnection(harness.socket)
        try await raw.send(RawConnection.head("/v1/decrypt", length: 10_000_000))
        try await wait(for: "413 and the close") { raw.isClosed && raw.text.hasPrefix("HTTP/1.1 413") }
    }

    @Test(
        "answers bytes that are not HTTP with 400, and closes the connection",
        arguments: ["\u{16}\u{03}\u{01}\u{02}hello TLS\r\n\r\n", "decrypt please\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"])
    func notHTTP(bytes: String) async throws {
        let raw = try await RawConnection(SharedDaemon.harness.socket)
        try? await raw.send(bytes)
        try await wait(for: "the close") { raw.isClosed }
        #expect(raw.text.hasPrefix("HTTP/1.1 400"), "\(raw.text)")
    }

    @Test("refuses a request with both Content-Length and Transfer-Encoding")
    func lengthAndChunked() async throws {
        let raw = try await RawConnection(SharedDaemon.harness.socket)
        try await raw.send(RawConnection.head("/v1/decrypt", length: 5, more: ["Transfer-Encoding: chunked"]))
        // Sending may fail, because the daemon may already have closed the connection.
        try? await raw.send("0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        try await wait(for: "the close") { raw.isClosed }
        #expect(raw.text.hasPrefix("HTTP/1.1 400"), "\(raw.text)")
        #expect(!raw.text.contains("HTTP/1.1 200"), "\(raw.text)")
    }

    @Test("answers a client that stalls in the head or body with 408 after ten seconds, and closes the connection")
    func slowSenders() async throws {
        let harness = try await SharedDaemon.harness
        let head = try await RawConnection(harness.socket)
        let body = try await RawConnection(harness.socket)
        let began = ContinuousClock.now
        try await head.send("POST /v1/decrypt HTTP/1.1\r\nHos")
        try await body.send(RawConnection.head("/v1/decrypt", length: 1000))
        try await body.send("{\"token\":")
        // The daemon serves other clients while these two clients send nothing.
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        // The status 408 shows that the timeout of the request closed each connection, and no other timeout.
        try await wait(for: "both closes") { head.isClosed && body.isClosed }
        let took = ContinuousClock.now - began
        #expect(took > .seconds(8), "\(took)")
        #expect(body.text.hasPrefix("HTTP/1.1 408") && body.text.contains("request_timeout"), "\(body.text)")
        #expect(head.text.hasPrefix("HTTP/1.1 408"), "\(head.text)")
    }

    @Test("serves successive requests on one connection, and answers pipelined ones in order")
    func keepAlive() async throws {
        let raw = try await RawConnection(SharedDaemon.harness.socket)
        let health = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        try await raw.send(health)
        try await wait(for: "the first answer") { raw.text.contains("HTTP/1.1 200") }
        let paymentToken = try SharedForge.paymentToken()
        let request = RawConnection.head("/v1/decrypt", length: paymentToken.decryptBody().count)
        try await raw.send(Array(request.utf8) + paymentToken.decryptBody() + Array(health.utf8))
        try await wait(for: "three answers") { raw.text.components(separatedBy: "HTTP/1.1 200").count == 4 }
        let released = try #require(raw.text.range(of: paymentToken.transactionIdentifier))
        let last = try #require(raw.text.range(of: "HTTP/1.1 200", options: .backwards))
        #expect(released.lowerBound < last.lowerBound)
        #expect(!raw.isClosed)
        await raw.close()
    }

    @Test("serves hundreds of simultaneous connections after the daemon was stopped, and refuses none")
    func backlog() async throws {
        var configuration = DaemonConfiguration()
        configuration.listener = ["max_connections_per_uid: 512"]
        let harness = try await DaemonHarness(configuration)
        // While the daemon is stopped, the connections wait for it.
        try harness.daemon.signal(SIGSTOP)
        var waiting: [RawConnection] = []
        for _ in 0..<300 {
            let connection = try await RawConnection(harness.socket, waits: false)
            try await connection.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            waiting.append(connection)
        }
        try harness.daemon.signal(SIGCONT)
        try await wait(for: "300 answers") { waiting.allSatisfy { $0.text.hasPrefix("HTTP/1.1 200") } }
        for connection in waiting { await connection.close() }
        #expect(try await harness.stop().status == 0)
    }

    /// Removes the closed connections from the list, and returns their number.
    private func closed(_ connections: inout [RawConnection]) -> Int {
        let before = connections.count
        // The state of each connection is read only once, because it may change between two reads.
        connections.removeAll { $0.isClosed }
        return before - connections.count
    }

    @Test("accepts idle connections up to an account's limit, and refuses the others as overloaded")
    func idleConnections() async throws {
        var configuration = DaemonConfiguration()
        configuration.listener = ["max_connections: 200", "max_connections_per_uid: 50", "mode: \"0666\""]
        let me = geteuid()
        configuration.access = [
            "{ user: \"\(me)\", roles: [decrypt, admin] }", "{ user: \"12345\", roles: [decrypt] }",
        ]
        let harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        try harness.directory.open()
        var idle: [RawConnection] = []
        var refused = 0
        for _ in 0..<1000 {
            let connection = try await RawConnection(harness.socket)
            idle.append(connection)
            refused += closed(&idle)
        }
        try await wait(for: "the share to be enforced") {
            refused += closed(&idle)
            return idle.count <= 50
        }
        #expect(refused >= 950)
        let overloaded = try await harness.decrypt(SharedForge.paymentToken())
        #expect(overloaded.status == 503 && overloaded.code == "overloaded", "\(overloaded)")
        #expect(overloaded.header("Retry-After").flatMap(Int.init) != nil)
        if PeerIdentity.available {
            let other = try await Curl.request(
                "/v1/decrypt", socket: harness.socket, body: SharedForge.paymentToken().decryptBody(),
                as: PeerIdentity(uid: 12345, gid: 12345))
            #expect(other.status == 200, "\(other)")
        }
        for connection in idle { await connection.close() }
        try await wait(for: "service to come back") {
            try await harness.decrypt(SharedForge.paymentToken()).status == 200
        }
        #expect(try await harness.stop().status == 0)
    }
}
