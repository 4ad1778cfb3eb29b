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

    @Test("sends every request once, and counts the answers by status")
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

    @Test("measures every request that was due during a stall as late, not only the one under way")
    func omission() async throws {
        // The rate is 200 requests a second. During the stall of 0.4 s, 80 requests are due, and 50 of them wait for
        // 0.15 s or more.
        let server = try await CountingServer(stall: .milliseconds(400), at: 100) { _ in "200 OK" }
        let measured = try run(server, try requests(200), rate: 200)
        #expect(measured.statuses == ["200": 200])
        #expect(measured.latency.p99 > 350_000)
        // The last of 200 requests is due after 199 intervals, so the load cannot take less time.
        #expect(measured.seconds >= 199 / 200)
        try await server.stop()
    }

    @Test("sends no request that is due after the end of the load")
    func length() async throws {
        let server = try await CountingServer { _ in "200 OK" }
        let measured = try run(server, connections: 4, try requests(1000), rate: 100, seconds: 0.5)
        #expect(measured.requests == 50)
        #expect(measured.statuses == ["200": 50])
        try await server.stop()
    }

    @Test("counts the request on a broken connection as lost, and continues on the others")
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

    @Test("completes an answer when its body is complete, for any division into pieces")
    func pieces() throws {
        for size in 1...answer.count {
            var reader = AnswerReader()
            // The second answer shows that the reader keeps no bytes of the first.
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
        "refuses input that is not an HTTP answer with a Content-Length",
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
