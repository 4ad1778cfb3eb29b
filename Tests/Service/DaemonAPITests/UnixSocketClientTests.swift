import Foundation
import NIOCore
import NIOPosix
import Refusals
import TestSupport
import Testing

@testable import DaemonAPI
@testable import OutgoingConnections

@Suite("Unix socket client")
struct UnixSocketClientTests {
    @Test("Sends an HTTP/1.1 request with its length, and returns the complete answer")
    func exchange() async throws {
        let server = try await ScriptedServer(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Test: yes\r\nContent-Length: 2\r\n\r\n{}")
        let answer = try await server.client().send(.post("/v1/verify?dry_run=true", body: Array(#"{"a":1}"#.utf8)))
        #expect(answer.status == 200)
        #expect(answer.isSuccess)
        #expect(answer.header("x-test") == "yes")
        #expect(answer.body == Array("{}".utf8))
        let request = try await server.received(#"{"a":1}"#)
        #expect(request.hasPrefix("POST /v1/verify?dry_run=true HTTP/1.1\r\n"))
        #expect(request.contains("\r\nHost: localhost\r\n"))
        #expect(request.contains("\r\nContent-Length: 7\r\n"))
        #expect(request.contains("\r\nContent-Type: application/json\r\n"))
        #expect(request.hasSuffix("\r\n\r\n{\"a\":1}"))
        try await server.stop()
    }

    @Test("Sends nothing to a process that the peer check rejects")
    func untrustedPeer() async throws {
        let server = try await ScriptedServer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        var client = server.client()
        let refusal = UnixSocketClientError.untrustedPeer(path: client.path, uid: 4242)
        client.checkPeer = { _ in throw refusal }
        await #expect(throws: refusal) { _ = try await client.send(.get("/v1/status")) }
        #expect(server.text.isEmpty)
        try await server.stop()
    }

    @Test("Joins the chunks of an answer")
    func chunked() async throws {
        let server = try await ScriptedServer(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
        #expect(try await server.client().send(.get("/metrics")).body == Array("abcdefg".utf8))
        try await server.stop()
    }

    @Test("Reads a refusal from an answer")
    func refusal() async throws {
        let body = #"{"code":"forbidden","message":"No."}"#
        let server = try await ScriptedServer(
            "HTTP/1.1 403 Forbidden\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        let answer = try await server.client().send(.get("/v1/status"))
        #expect(!answer.isSuccess)
        #expect(answer.refusal?.refusalCode == .forbidden)
        try await server.stop()
    }

    @Test(
        "Throws when an answer exceeds the size limit, with or without a length",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n",
        ])
    func tooLarge(head: String) async throws {
        let server = try await ScriptedServer(head + String(repeating: "x", count: 2000))
        await #expect(throws: UnixSocketClientError.answerTooLarge(limit: 1000)) {
            _ = try await server.client(maximumAnswerBytes: 1000).send(.get("/"))
        }
        try await server.stop()
    }

    @Test(
        "Throws before the deadline if an answer is endless but never reaches its body",
        arguments: [
            ("", "HTTP/1.1 102 Processing\r\n\r\n"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "extension=of-a-chunk;"),
        ])
    func endless(head: String, more: String) async throws {
        let server = try await ScriptedServer(head + String(repeating: more, count: 5000), closes: false)
        let client = server.client(maximumAnswerBytes: 1000, deadline: .seconds(600))
        await #expect(throws: UnixSocketClientError.answerTooLarge(limit: 1000)) {
            _ = try await client.send(.get("/"))
        }
        try await server.stop()
    }

    @Test("Accepts an answer of exactly the size limit")
    func atTheLimit() async throws {
        let server = try await ScriptedServer(
            "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + String(repeating: "x", count: 1000))
        #expect(try await server.client(maximumAnswerBytes: 1000).send(.get("/")).body.count == 1000)
        try await server.stop()
    }

    @Test("Throws at the deadline if the server is silent")
    func deadline() async throws {
        let server = try await ScriptedServer("", closes: false)
        let limit = Duration.milliseconds(200)
        await #expect(throws: UnixSocketClientError.deadlineExceeded(path: server.path, after: limit)) {
            _ = try await server.client(deadline: limit).send(.get("/"))
        }
        try await server.stop()
    }

    @Test(
        "Throws cutShort if the connection ends before the answer does",
        arguments: ["", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"])
    func cutShort(script: String) async throws {
        let server = try await ScriptedServer(script)
        await #expect(throws: UnixSocketClientError.cutShort(path: server.path)) {
            _ = try await server.client().send(.get("/"))
        }
        try await server.stop()
    }

    @Test("Refuses a body without a length, because its truncation could not be detected")
    func unframed() async throws {
        let server = try await ScriptedServer("HTTP/1.1 200 OK\r\n\r\n{}")
        await #expect(throws: UnixSocketClientError.notHTTP(path: server.path)) {
            _ = try await server.client().send(.get("/"))
        }
        await #expect(throws: UnixSocketClientError.notHTTP(path: server.path)) {
            _ = try await server.client().stream(.get("/"))
        }
        try await server.stop()
    }

    @Test("Throws notHTTP if the server uses another protocol")
    func notHTTP() async throws {
        let server = try await ScriptedServer("SSH-2.0-OpenSSH_9.2\r\n")
        await #expect(throws: UnixSocketClientError.notHTTP(path: server.path)) {
            _ = try await server.client().send(.get("/"))
        }
        try await server.stop()
    }

    @Test("Returns a refusal that arrives before the request's body has been sent")
    func earlyRefusal() async throws {
        let body = #"{"code":"request_too_large","message":"Too large."}"#
        let server = try await ScriptedServer(
            "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        let answer = try await server.client().send(
            .post("/v1/decrypt", body: [UInt8](repeating: 0x20, count: 8 << 20)))
        #expect(answer.status == 413)
        #expect(answer.refusal?.refusalCode == .requestTooLarge)
        try await server.stop()
    }

    @Test("Distinguishes a missing socket, a socket without a listener, and a path that is too long")
    func cannotConnect() async throws {
        let directory = try FreshDirectory()
        let missing = directory.path("missing.sock")
        await #expect(throws: UnixSocketClientError.notThere(path: missing)) {
            _ = try await UnixSocketClient(path: missing).send(.get("/"))
        }
        let server = try await ScriptedServer("")
        let path = server.path
        try await server.stop()
        try Data().write(to: URL(filePath: path))
        await #expect(throws: UnixSocketClientError.notListening(path: path)) {
            _ = try await UnixSocketClient(path: path).send(.get("/"))
        }
        let long = "/" + String(repeating: "p", count: 200)
        await #expect(throws: UnixSocketClientError.pathTooLong(path: long)) {
            _ = try await UnixSocketClient(path: long).send(.get("/"))
        }
    }

    @Test("Reports a daemon that accepts no more connections as busy")
    func busy() async throws {
        let directory = try FreshDirectory()
        let path = directory.path("s.sock")
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 1)
            .serverChannelOption(.autoRead, value: false)
            .bind(unixDomainSocketPath: path).get()
        let errors = await withTaskGroup(of: UnixSocketClientError?.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    do throws(UnixSocketClientError) {
                        _ = try await UnixSocketClient(path: path, deadline: .milliseconds(500)).send(.get("/"))
                        return nil
                    } catch {
                        return error
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(errors.contains(.busy(path: path)))
        #expect(errors.contains(.deadlineExceeded(path: path, after: .milliseconds(500))))
        #expect(errors.count == 8 && !errors.contains(nil))
        try await channel.close()
    }

    @Test("Repeats connecting while the server's queue is full, until it has room")
    func queueFull() async throws {
        let directory = try FreshDirectory()
        let path = directory.path("s.sock")
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let accepted = loop.makePromise(of: Void.self)
        let server = try await ServerBootstrap(group: loop)
            .serverChannelOption(.backlog, value: 1)
            .serverChannelOption(.autoRead, value: false)
            .childChannelInitializer { _ in
                accepted.succeed()
                return loop.makeSucceededVoidFuture()
            }
            .bind(unixDomainSocketPath: path).get()
        let connect: @Sendable () -> EventLoopFuture<any Channel> = {
            ClientBootstrap(group: loop).connect(unixDomainSocketPath: path)
        }
        await #expect(throws: IOError.self) {
            while true { _ = try await connect().get() }
        }
        let attempts = Shared(0)
        let connected: any Channel = try await UnixSocketClient.retryingWhileBusy {
            attempts.increment()
            if attempts.current == 3 {
                server.read()
                try await accepted.futureResult.get()
            }
            do { return try await connect().get() } catch let error as IOError {
                throw HTTPFault(.connecting, .error(error))
            }
        }
        #expect(connected.isActive && attempts.current == 3)
        try await connected.close()
        try await server.close()
    }

    @Test("Reports a missing permission, and names the setting that grants it")
    func permission() {
        let client = UnixSocketClient(path: "/run/paytokend/admin.sock")
        let error = client.failure(
            of: HTTPFault(.connecting, .error(IOError(errnoCode: EACCES, reason: "connect"))))
        #expect(error == .notPermitted(path: "/run/paytokend/admin.sock"))
        #expect(error.exitStatus == .notPermitted)
        #expect(error.description.contains("admin_mode"))
        #expect(UnixSocketClientError.notThere(path: "p").exitStatus == .unreachable)
    }

    @Test("Throws when the waiting task is cancelled")
    func cancelled() async throws {
        let server = try await ScriptedServer("", closes: false)
        let client = server.client()
        let task = Task { try await client.send(.get("/")) }
        task.cancel()
        await #expect(throws: UnixSocketClientError.self) { _ = try await task.value }
        try await server.stop()
    }

    @Test("Returns an answer to each of fifty simultaneous requests")
    func concurrent() async throws {
        let server = try await ScriptedServer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        let client = server.client()
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<50 { group.addTask { try await client.send(.get("/healthz")).status } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses == [Int](repeating: 200, count: 50))
        try await server.stop()
    }
}
