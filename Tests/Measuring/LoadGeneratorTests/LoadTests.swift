import TestSupport
import Testing

@testable import load_generator

@Suite("The load generator") struct LoadTests {
    private func requests(_ count: Int, size: Int = 32) throws -> RequestList {
        let request = [0, 0, UInt8(size >> 8), UInt8(size & 0xFF)] + [UInt8](repeating: UInt8(ascii: "x"), count: size)
        return try RequestList((0..<count).flatMap { _ in request })
    }

    private func run(
        _ server: CountingServer, connections: Int = 1, _ requests: RequestList, rate: Double? = nil,
        seconds: Double? = nil
    ) throws -> Measurement {
        var load = try Load(
            socket: server.path, connections: connections, requests: requests, pace: Pace(rate: rate, seconds: seconds))
        return try load.run()
    }

    @Test("sends every request once, and counts answers by their status")
    func statuses() async throws {
        let server = try await CountingServer { $0 % 10 == 0 ? "503 Service Unavailable" : "200 OK" }
        let measured = try run(server, connections: 7, try requests(100))
        #expect(measured.requests == 100)
        #expect(measured.statuses == ["200": 90, "503": 10])
        #expect(measured.lost == 0)
        #expect(measured.latency.p50 > 0)
        #expect(measured.latency.p50 <= measured.latency.max)
        try await server.stop()
    }

    @Test("measures all requests due during a stall as late at a given rate, not one alone")
    func omission() async throws {
        // 200 a second: for 0.4 s nothing is answered, and 80 requests are due, of which 50 wait for 0.15 s or more.
        let server = try await CountingServer(stall: .milliseconds(400), at: 100) { _ in "200 OK" }
        let measured = try run(server, try requests(200), rate: 200)
        #expect(measured.statuses == ["200": 200])
        #expect(measured.latency.p99 > 350_000)
        // No request is due before its time.
        #expect(measured.seconds >= 199 / 200)
        try await server.stop()
    }

    @Test("sends nothing that is due after the load's time")
    func length() async throws {
        let server = try await CountingServer { _ in "200 OK" }
        let measured = try run(server, connections: 4, try requests(1000), rate: 100, seconds: 0.5)
        #expect(measured.requests == 50)
        #expect(measured.statuses == ["200": 50])
        try await server.stop()
    }

    @Test("loses the request of a broken connection, and continues on the others")
    func lost() async throws {
        let server = try await CountingServer { $0 == 5 ? nil : "200 OK" }
        let measured = try run(server, connections: 2, try requests(50))
        #expect(measured.lost == 1)
        #expect(measured.statuses == ["200": 49])
        try await server.stop()
    }

    @Test("sends a request in parts when the socket has no room for it")
    func large() async throws {
        let size = 60_000
        let server = try await CountingServer(size: size, reads: 4096) { _ in "200 OK" }
        #expect(try run(server, connections: 3, try requests(30, size: size)).statuses == ["200": 30])
        try await server.stop()
    }

    @Test("refuses requests shorter or longer than stated")
    func truncated() {
        #expect(throws: LoadFailure.self) { try RequestList([0, 0, 0, 3, 1, 2]) }
        #expect(throws: LoadFailure.self) { try RequestList([0, 0]) }
        #expect(throws: LoadFailure.self) { try RequestList([0, 0, 0, 0]) }
    }
}

@Suite("The load generator's reading of answers") struct AnswerReaderTests {
    private let answer = Array(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length:  5\r\n\r\nabcde".utf8)

    @Test("completes an answer with its body, in any pieces")
    func pieces() throws {
        for size in 1...answer.count {
            var reader = AnswerReader()
            // Twice: the second reader must not receive any part of the first answer.
            for _ in 0..<2 {
                var results: [Int?] = []
                for start in stride(from: 0, to: answer.count, by: size) {
                    let piece = Array(answer[start..<min(start + size, answer.count)])
                    results.append(try reader.take(piece + [0xFF], count: piece.count))
                }
                #expect(results.last == 200)
                #expect(results.dropLast().allSatisfy { $0 == nil })
            }
        }
    }

    @Test(
        "refuses anything but an answer of known length",
        arguments: [
            "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "nonsense\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", "HTTP/1.1 20x OK\r\n",
        ])
    func refused(_ text: String) {
        var reader = AnswerReader()
        let bytes = Array(text.utf8)
        #expect(throws: LoadFailure.self) { _ = try reader.take(bytes, count: bytes.count) }
    }
}
