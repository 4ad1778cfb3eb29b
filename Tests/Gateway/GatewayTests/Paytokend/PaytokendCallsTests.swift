import DaemonAPI
import NIOHTTP1
import TestSupport
import Testing

@testable import Gateway

@Suite("Calls to paytokend")
struct PaytokendCallsTests {
    private let directory: FreshDirectory
    /// A latch that delays the responses to all requests except `GET /readyz` while it is closed.
    private let latch = Latch(isOpen: true)
    /// The statuses of the next responses. All later responses have status 200.
    private let statuses = Shared<[Int]>([])
    private let heads = Shared<[HTTPRequestHead]>([])
    private let paytokend: SimulatedPaytokend
    private let settings: PaytokendSettings
    private let calls: PaytokendCalls

    init() async throws {
        directory = try FreshDirectory()
        let (latch, statuses, heads) = (latch, statuses, heads)
        paytokend = try await SimulatedPaytokend(at: directory.path("p.sock")) { head, _ in
            heads.change { $0.append(head) }
            if head.uri != "/readyz" { await latch.pass() }
            let status = statuses.current.first ?? 200
            statuses.change { $0 = Array($0.dropFirst()) }
            return (status, Array("{}".utf8))
        }
        settings = PaytokendSettings(socket: directory.path("p.sock"), timeout: .seconds(120), maxConnections: 3)
        calls = PaytokendCalls(settings)
    }

    private func send(_ client: String? = nil) async throws -> Bool {
        let (answer, isSecond) = try await calls.send(.get("/v1"), for: client, before: .now + .seconds(120))
        #expect(answer.status == 200)
        return isSecond
    }

    private func requests(_ connection: String) -> UInt64 { calls.metrics.requests.value([connection]) }

    @Test("reuse their connections")
    func kept() async throws {
        for _ in 0..<5 { #expect(try await !send("shop")) }
        #expect(paytokend.accepted == 1)
        #expect(requests("new") == 1 && requests("reused") == 4)
        #expect(heads.current.allSatisfy { $0.headers[ClientName.header] == ["shop"] })
        _ = try await send()
        #expect(heads.current.last?.headers[ClientName.header] == [])
        calls.close()
    }

    @Test("open at most the configured number of connections, and keep all of them")
    func bounded() async throws {
        latch.close()
        let held = (0..<7).map { _ in Begun { try? await send("shop") } }
        try await wait { latch.waiting == 3 && calls.waitingCount == 4 }
        latch.open()
        for call in held { #expect(try await call.value() == false) }
        #expect(paytokend.accepted <= 3)
        let before = paytokend.accepted
        _ = try await send()
        #expect(paytokend.accepted == before)
        calls.close()
    }

    @Test("replace a connection that paytokend closed while it was idle")
    func idleEnd() async throws {
        _ = try await send()
        try await paytokend.closeConnections()
        // The next request succeeds, even if the client has not noticed that the server closed the connection.
        _ = try await send()
        #expect(paytokend.accepted == 2)
        calls.close()
    }

    @Test("are sent a second time, and say so, if paytokend closes a reused connection without an answer")
    func second() async throws {
        _ = try await send()
        statuses.change { $0 = [0] }
        #expect(try await send())
        #expect(paytokend.accepted == 2 && heads.current.count == 3)
        #expect(try await !send())
        calls.close()
    }

    @Test("are not sent a second time if paytokend closes a new connection")
    func onlyOnce() async throws {
        statuses.change { $0 = [0] }
        await #expect(throws: UnixSocketClientError.cutShort(path: settings.socket)) { _ = try await send() }
        // A connection that replaces a persistent one counts as new too.
        _ = try await send()
        statuses.change { $0 = [0, 0] }
        await #expect(throws: UnixSocketClientError.cutShort(path: settings.socket)) { _ = try await send() }
        #expect(heads.current.count == 4)
        calls.close()
    }

    @Test("send nothing if they get no place in time")
    func busy() async throws {
        latch.close()
        let held = (0..<3).map { _ in Begun { try? await send("shop") } }
        try await wait { latch.waiting == 3 }
        await #expect(throws: UnixSocketClientError.busy(path: settings.socket)) {
            _ = try await calls.send(.get("/v1"), for: "other", before: .now + .milliseconds(50))
        }
        #expect(heads.current.count == 3)
        latch.open()
        for call in held { #expect(try await call.value() == false) }
        calls.close()
    }

    @Test("leave one connection for readiness, with one question at a time")
    func readiness() async throws {
        latch.close()
        let held = (0..<5).map { _ in Begun { try? await send("shop") } }
        try await wait { latch.waiting == 3 && calls.waitingCount == 2 }
        let time = Shared(ContinuousClock.now)
        let readiness = PaytokendReadiness(settings) { time.current }
        #expect(try await readiness.isReady())
        #expect(paytokend.accepted == 4)
        latch.open()
        for call in held { #expect(try await call.value() == false) }
        statuses.change { $0 = [503] }
        time.change { $0 += .seconds(1) }
        #expect(try await !readiness.isReady())
        calls.close()
    }
}

@Suite("paytokend's readiness")
struct PaytokendReadinessTests {
    @Test("is asked once for all simultaneous requests, and once a second")
    func shared() async throws {
        let directory = try FreshDirectory()
        let (latch, time, status) = (Latch(isOpen: false), Shared(ContinuousClock.now), Shared(200))
        let paytokend = try await SimulatedPaytokend(at: directory.path("p.sock")) { _, _ in
            await latch.pass()
            return (status.current, [])
        }
        let settings = PaytokendSettings(socket: directory.path("p.sock"), timeout: .seconds(120), maxConnections: 1)
        let readiness = PaytokendReadiness(settings) { time.current }
        let first = Begun { try? await readiness.isReady() }
        try await wait { latch.waiting == 1 }
        let others = (0..<20).map { _ in Task { try await readiness.isReady() } }
        // The other calls have to arrive before the answer. These yields make that likely.
        for _ in 0..<100 { await Task.yield() }
        #expect(paytokend.accepted == 1)
        latch.open()
        #expect(try await first.value() == true)
        for other in others { #expect(try await other.value) }
        status.change { $0 = 503 }
        time.change { $0 += .milliseconds(999) }
        for _ in 0..<3 { #expect(try await readiness.isReady()) }
        #expect(paytokend.accepted == 1)
        time.change { $0 += .milliseconds(1) }
        for _ in 0..<3 { #expect(try await !readiness.isReady()) }
        #expect(paytokend.accepted == 2)
    }
}
