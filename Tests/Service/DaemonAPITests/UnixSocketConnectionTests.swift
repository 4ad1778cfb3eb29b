import TestSupport
import Testing

@testable import DaemonAPI

@Suite("Reused connection to a Unix socket")
struct UnixSocketConnectionTests {
    private static let empty = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    private func send(_ connection: UnixSocketConnection) async throws(UnixSocketClientError) -> ClientAnswer {
        try await connection.send(.get("/v1"), within: .seconds(120))
    }

    @Test("Sends several requests on one connection, without Connection: close")
    func several() async throws {
        let server = try await ScriptedServer([Self.empty, Self.empty, Self.empty], closes: false)
        let connection = try await UnixSocketConnection.open(server.client())
        for _ in 0..<3 { #expect(try await send(connection).body == Array("{}".utf8)) }
        #expect(connection.isOpen)
        let received = try await server.received("\r\n\r\n")
        #expect(received.split(separator: "GET /v1 HTTP/1.1\r\n").count == 3 && !received.contains("close"))
        connection.close()
        try await server.stop()
    }

    @Test("Throws closed if a later request gets no answer, cutShort if the first gets none", arguments: [1, 2])
    func unanswered(request: Int) async throws {
        let scripts = [String](repeating: Self.empty, count: request - 1) + [""]
        let server = try await ScriptedServer(scripts)
        let connection = try await UnixSocketConnection.open(server.client())
        for _ in 1..<request { _ = try await send(connection) }
        let expected: UnixSocketClientError = request == 1 ? .cutShort(path: server.path) : .closed(path: server.path)
        await #expect(throws: expected) { try await send(connection) }
        #expect(!connection.isOpen)
        // A closed connection accepts no further request.
        await #expect(throws: UnixSocketClientError.closed(path: server.path)) { try await send(connection) }
        try await server.stop()
    }

    @Test(
        "Throws cutShort, not closed, if part of an answer arrived",
        arguments: ["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "HTTP/1.1 200 OK\r\nConte"])
    func part(script: String) async throws {
        let server = try await ScriptedServer([Self.empty, script])
        let connection = try await UnixSocketConnection.open(server.client())
        _ = try await send(connection)
        await #expect(throws: UnixSocketClientError.cutShort(path: server.path)) { try await send(connection) }
        try await server.stop()
    }

    @Test("Closes the connection after Connection: close or unexpected bytes")
    func lastAnswer() async throws {
        for script in ["HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", Self.empty + Self.empty] {
            let server = try await ScriptedServer([script], closes: false)
            let connection = try await UnixSocketConnection.open(server.client())
            #expect(try await send(connection).status == 200)
            try await wait(for: "the connection's end") { !connection.isOpen }
            try await server.stop()
        }
    }

    @Test("Applies the size limit to each answer separately")
    func bound() async throws {
        let body = String(repeating: "x", count: 1000)
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + body
        let endless = String(repeating: "HTTP/1.1 102 Processing\r\n\r\n", count: 5000)
        let server = try await ScriptedServer([String](repeating: answer, count: 30) + [endless], closes: false)
        let connection = try await UnixSocketConnection.open(server.client(maximumAnswerBytes: 1000))
        for _ in 0..<30 { #expect(try await send(connection).body.count == 1000) }
        await #expect(throws: UnixSocketClientError.answerTooLarge(limit: 1000)) { try await send(connection) }
        try await server.stop()
    }

    @Test("Closes the connection when a request exceeds its time limit")
    func deadline() async throws {
        let server = try await ScriptedServer([Self.empty, ""], closes: false)
        let connection = try await UnixSocketConnection.open(server.client())
        _ = try await send(connection)
        let time = Duration.milliseconds(100)
        await #expect(throws: UnixSocketClientError.deadlineExceeded(path: server.path, after: time)) {
            try await connection.send(.get("/v1"), within: time)
        }
        try await wait(for: "the connection's end") { !connection.isOpen }
        try await server.stop()
    }
}

@Suite("The header that names a client")
struct ClientNameTests {
    @Test("Accepts 1 to 64 printable ASCII characters without blanks, in a single header")
    func wellFormed() {
        for text in ["a", "shop@example-1", String(repeating: "n", count: 64)] {
            #expect(ClientName(headers: [text])?.text == text)
        }
        for text in ["", "a b", "\u{7F}", "a\tb", "ü", String(repeating: "n", count: 65)] {
            #expect(ClientName(headers: [text]) == nil)
        }
        #expect(ClientName(headers: []) == nil && ClientName(headers: ["a", "a"]) == nil)
    }
}
