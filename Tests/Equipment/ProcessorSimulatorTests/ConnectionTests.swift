import Foundation
import NIOCore
import ProcessorSimulator
import TestSupport
import Testing

/// Correct and incorrect HTTP requests, connections' limits, and stopping.
@Suite struct ConnectionTests {
    @Test("answers sequential and pipelined requests on one connection in order")
    func keepAlive() async throws {
        let simulator = try await SimulatorUnderTest.start()
        let connection = try await simulator.connect()
        let payments = (1...4).map { String(repeating: String($0), count: 64) }
        for payment in payments.prefix(2) {
            try await connection.send(SubmissionRequest(payment: payment).message)
            #expect(try await connection.answer().body.contains(payment))
        }
        try await connection.send(payments.suffix(2).map { SubmissionRequest(payment: $0).message }.joined())
        for payment in payments.suffix(2) { #expect(try await connection.answer().body.contains(payment)) }
        try await connection.send("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        let last = try await connection.everything()
        #expect(last.hasPrefix("HTTP/1.1 200 OK\r\n") && last.contains("Connection: close\r\n"))
    }

    @Test("reads a chunked body, and sends 100 Continue to a client that waits for it")
    func chunks() async throws {
        let simulator = try await SimulatorUnderTest.start()
        let body = SubmissionRequest().body
        let chunked = try await simulator.connect()
        try await chunked.send("POST /authorizations HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in [body.prefix(10), body.dropFirst(10)] {
            try await chunked.send("\(String(piece.utf8.count, radix: 16))\r\n\(piece)\r\n")
        }
        try await chunked.send("0\r\n\r\n")
        #expect(try await chunked.answer().status == 200)

        let waiting = try await simulator.connect()
        try await waiting.send(
            RawConnection.head("/authorizations", length: body.utf8.count, more: ["Expect: 100-continue"]))
        #expect(try await waiting.answer().status == 100)
        try await waiting.send(body)
        #expect(try await waiting.answer().status == 200)
    }

    @Test(
        "refuses unknown paths and methods",
        arguments: [
            ("GET /authorizations", 405), ("PUT /authorizations", 405), ("POST /healthz", 405), ("GET /", 404),
            ("DELETE /authorizations/\(SubmissionRequest.payment)", 405), ("GET /authorizations/", 404),
            ("GET /authorizations/\(SubmissionRequest.payment)", 404), ("GET /authorizations/../healthz", 404),
            ("GET /authorizations/\(SubmissionRequest.payment)?x=1", 404), ("HEAD /authorizations", 405),
        ])
    func notServed(_ line: String, _ status: Int) async throws {
        let simulator = try await SimulatorUnderTest.start()
        let connection = try await simulator.connect()
        try await connection.send("\(line) HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        #expect(try await connection.answer(toHEAD: line.hasPrefix("HEAD")).status == status)
        #expect(try simulator.events.isEmpty)
    }

    @Test("answers a malformed submission with 400 and the member's name, logs nothing, and stays connected")
    func malformed() async throws {
        let simulator = try await SimulatorUnderTest.start()
        let connection = try await simulator.connect()
        try await connection.send(SubmissionRequest().with("cryptogram", nil).message)
        let answer = try await connection.answer()
        #expect(answer.status == 400 && answer.body.contains("malformed_request") && answer.body.contains("cryptogram"))
        #expect(try simulator.events.isEmpty)
        try await connection.send(SubmissionRequest().message)
        #expect(try await connection.answer().status == 200)
    }

    @Test("answers a body of more than 64 KiB, declared or chunked, with 413, and closes the connection")
    func tooLarge() async throws {
        let simulator = try await SimulatorUnderTest.start()
        let most = 64 * 1024
        let declared = try await simulator.connect()
        try await declared.send(RawConnection.head("/authorizations", length: most + 1))
        #expect(try await declared.everything().hasPrefix("HTTP/1.1 413 "))
        let chunked = try await simulator.connect()
        try await chunked.send("POST /authorizations HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        try await chunked.send("\(String(most + 1, radix: 16))\r\n" + String(repeating: " ", count: most + 1) + "\r\n")
        #expect(try await chunked.everything().hasPrefix("HTTP/1.1 413 "))

        let whole = try await simulator.connect()
        let body = SubmissionRequest().body
        let padded = String(repeating: " ", count: most - body.utf8.count) + body
        try await whole.send(RawConnection.head("/authorizations", length: most) + padded)
        #expect(try await whole.answer().status == 200)
    }

    @Test("answers input that is not HTTP with 400, and closes the connection")
    func notHTTP() async throws {
        let simulator = try await SimulatorUnderTest.start()
        let connection = try await simulator.connect()
        try await connection.send("\u{16}\u{3}\u{1} hello\r\n\r\n")
        #expect(try await connection.everything().hasPrefix("HTTP/1.1 400 "))
    }

    @Test("closes the connection of a client that sends too many requests before the first answer")
    func flood() async throws {
        let simulator = try await SimulatorUnderTest.start(late: .seconds(600))
        let connection = try await simulator.connect()
        try await connection.send(SubmissionRequest(cents: 88).message)
        connection.sendLossy(String(repeating: "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", count: 20))
        #expect(try await connection.everything().isEmpty)
    }

    @Test("answers three hundred simultaneous clients, and logs each submission once")
    func many() async throws {
        let simulator = try await SimulatorUnderTest.start()
        let answers = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<300 {
                group.addTask {
                    let digits = String(number)
                    let payment = String(repeating: "0", count: 64 - digits.count) + digits
                    return try await simulator.submit(SubmissionRequest(payment: payment)).status
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers == Array(repeating: 200, count: 300))
        let summary = try LogSummary(path: simulator.directory.path("log"))
        #expect(
            summary.submittedTwice == 0 && summary.json.contains(#""payments":300,"submissions":300,"answers":300"#))
    }

    @Test("answers a repeated submission like the first one, and logs both")
    func twice() async throws {
        let simulator = try await SimulatorUnderTest.start()
        for _ in 0..<2 { #expect(try await simulator.submit(SubmissionRequest()).body.contains("authorized")) }
        #expect(
            try simulator.events
                == ["submitted/authorized/1", "answered/1", "submitted/authorized/2", "answered/2"])
        #expect(try LogSummary(path: simulator.directory.path("log")).submittedTwice == 1)
    }

    @Test("answers 503 when the disk is full, and logs no submission")
    func full() async throws {
        let storage = ScriptedStorage()
        let simulator = try await SimulatorUnderTest.start(storage: storage)
        storage.state.change { $0.room = 200 }
        let answer = try await simulator.submit(SubmissionRequest())
        #expect(answer.status == 503 && answer.body.contains("unavailable") && storage.lines.isEmpty)
        #expect(try await simulator.ask(for: SubmissionRequest.payment).status == 404)
        storage.state.change { $0.room = nil }
        #expect(try await simulator.submit(SubmissionRequest()).status == 200)
    }

    @Test("closes the connection without a late answer if the answer cannot be logged")
    func fullWhenLate() async throws {
        let storage = ScriptedStorage()
        storage.state.change { $0.appendsLeft = 1 }
        let simulator = try await SimulatorUnderTest.start(storage: storage)
        let connection = try await simulator.connect()
        try await connection.send(SubmissionRequest(cents: 88).message)
        #expect(try await connection.everything().isEmpty)
        #expect(storage.lines.count == 1)
    }

    @Test("waits for late answers when it stops, but not for silent or idle connections")
    func stop() async throws {
        let simulator = try await SimulatorUnderTest.start(late: .seconds(2))
        let (idle, silent, late) = (
            try await simulator.connect(), try await simulator.connect(), try await simulator.connect()
        )
        try await idle.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        _ = try await idle.answer()
        try await silent.send(SubmissionRequest(cents: 84).message)
        try await late.send(SubmissionRequest(cents: 88, payment: String(repeating: "1", count: 64)).message)
        try await wait(for: "both submissions") { try simulator.events.filter { $0.hasPrefix("submitted") }.count == 2 }
        await simulator.server.shutdown()
        let answer = try await late.everything()
        #expect(answer.contains(#""status":"authorized""#) && answer.contains("Connection: close\r\n"))
        #expect(try await silent.everything().isEmpty)
        #expect(try await idle.everything().isEmpty)
        #expect(!FileManager.default.fileExists(atPath: simulator.directory.path("socket")))
    }

    @Test("closes a silent connection at once when it stops, even if late answers may take minutes")
    func stopSilent() async throws {
        let simulator = try await SimulatorUnderTest.start(late: .seconds(600))
        let silent = try await simulator.connect()
        try await silent.send(SubmissionRequest(cents: 84).message)
        try await wait(for: "the submission's line") { try simulator.events == ["submitted/no_answer/1"] }
        let stopped = Begun { await simulator.server.shutdown() }
        try await stopped.value()
        #expect(try await silent.everything().isEmpty)
    }

    @Test("sends and logs no late answer if the client has closed the connection")
    func left() async throws {
        let simulator = try await SimulatorUnderTest.start(late: .seconds(3))
        let first = try await simulator.connect()
        try await first.send(SubmissionRequest(cents: 88).message)
        try await wait(for: "the submission's line") { try simulator.events == ["submitted/late/1"] }
        await first.close()
        // When the later submission is answered, the time of the first one's late answer has passed.
        let second = String(repeating: "1", count: 64)
        #expect(try await simulator.submit(SubmissionRequest(cents: 88, payment: second)).status == 200)
        #expect(try simulator.events == ["submitted/late/1", "submitted/late/1", "answered/1"])
    }

    @Test("answers a client that has finished sending, and then closes the connection")
    func halfClosed() async throws {
        let simulator = try await SimulatorUnderTest.start(late: .milliseconds(200))
        let connection = try await RawConnection(simulator.directory.path("socket"), staysOpen: true)
        try await connection.send(SubmissionRequest(cents: 88).message)
        try await wait(for: "the submission's line") { try simulator.events == ["submitted/late/1"] }
        try await connection.finishSending()
        #expect(try await connection.everything().contains(#""status":"authorized""#))
    }

    @Test("closes a connection beyond the limit, and accepts one again after another has closed")
    func maximum() async throws {
        let simulator = try await SimulatorUnderTest.start(maximumConnections: 2)
        let request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        let kept = [try await simulator.connect(), try await simulator.connect()]
        for connection in kept {
            try await connection.send(request)
            #expect(try await connection.answer().status == 200)
        }
        let third = try await simulator.connect()
        third.sendLossy(request)
        #expect(try await third.everything().isEmpty)
        await kept[0].close()
        try await wait(for: "room") {
            let next = try await simulator.connect()
            next.sendLossy(request)
            try await wait(for: "an answer or the end") { next.isClosed || !next.text.isEmpty }
            return !next.text.isEmpty
        }
    }

    @Test(
        "refuses addresses that are not loopback or Unix sockets",
        arguments: [
            "0.0.0.0:9000", "192.0.2.1:9000", "[::]:9000", "[2001:db8::1]:9000", "::1:9000", "localhost:9000",
            "127.0.0.1",
            "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1", "127.0.0.1:+1", "127.example:9000", "unix:", "/run/socket",
            "",
        ])
    func refusedAddress(_ text: String) { #expect(SimulatorAddress(text) == nil) }

    @Test(
        "accepts loopback addresses of IPv4 and IPv6", arguments: ["127.0.0.1:0", "127.8.9.10:9000", "[::1]:9000"])
    func loopback(_ text: String) throws {
        let address = try #require(SimulatorAddress(text))
        guard case .loopback = address else { return #expect(Bool(false)) }
    }
}
