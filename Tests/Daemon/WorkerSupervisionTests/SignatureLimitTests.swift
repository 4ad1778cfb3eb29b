import Locks
import TestSupport
import Testing
import WorkerProtocol

@testable import WorkerSupervision

/// The share of an HSM token's sessions that signatures may use: a quarter of the sessions, and at least one.
@Suite("Signatures' share of the sessions")
struct SignatureLimitTests {
    /// A call to an HSM token that ends when the test opens the gate.
    private final class Gate: Sendable {
        private let state = Mutex(
            (open: false, waiting: [CheckedContinuation<Void, Never>](), begun: 0, most: 0, now: 0))

        func pass() async {
            state.withLock {
                $0.begun += 1
                $0.now += 1
                $0.most = max($0.most, $0.now)
            }
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    if !state.open { state.waiting.append(continuation) }
                    return state.open
                }
                if isOpen { continuation.resume() }
            }
            state.withLock { $0.now -= 1 }
        }

        func open() {
            let waiting = state.withLock { state in
                state.open = true
                defer { state.waiting = [] }
                return state.waiting
            }
            for continuation in waiting { continuation.resume() }
        }

        var begun: Int { state.withLock { $0.begun } }
        var most: Int { state.withLock { $0.most } }
    }

    /// The callers or clients, in the order in which they were served.
    private final class Order: Sendable {
        private let state = Mutex<[String]>([])

        func append(_ name: String) { state.withLock { $0.append(name) } }
        var names: [String] { state.withLock { $0 } }
    }

    @Test(
        "allows a quarter of the sessions, and at least one",
        arguments: [(1, 1), (2, 1), (4, 1), (7, 1), (8, 2), (64, 16)]
    )
    func shareOfSessions(sessions: Int, most: Int) {
        #expect(SignatureLimit(sessions: sessions).most == most)
    }

    @Test("makes all of thirty simultaneous signatures, and never more than the share at a time")
    func completesAllWithinShare() async throws {
        let (limit, gate) = (SignatureLimit(sessions: 8), Gate())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<30 {
                group.addTask { try await limit.run(until: .now + .seconds(600)) { await gate.pass() } }
            }
            try await wait(for: "the first two") { gate.begun == 2 }
            gate.open()
            try await group.waitForAll()
        }
        #expect(gate.begun == 30 && gate.most == 2)
    }

    @Test("alternates between a caller with many signatures and other callers, and keeps room for them")
    func alternatesBetweenCallers() async throws {
        let (limit, gate) = (SignatureLimit(sessions: 1, capacity: 8), Gate())
        let order = Order()
        let sign: @Sendable (String) async throws -> Void = { caller in
            try await limit.run(for: Requester(caller: caller), until: .now + .seconds(600)) {
                order.append(caller)
                await gate.pass()
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await sign("many") }
            try await wait(for: "the first") { gate.begun == 1 }
            // Eight signatures may wait, four of one caller. The caller's fifth waiting signature is therefore refused.
            for _ in 0..<4 { group.addTask { try await sign("many") } }
            try await wait(for: "four that wait") { limit.waiting == 4 }
            await #expect(throws: WorkerFailure.self) { try await sign("many") }
            group.addTask { try await sign("few") }
            try await wait(for: "five that wait") { limit.waiting == 5 }
            gate.open()
            try await group.waitForAll()
        }
        let served = order.names
        #expect(served.count == 6)
        // One signature for `many` was already under way, and the round may begin with another one for `many`. The
        // signature for `few` is therefore the third of six at the latest.
        #expect((served.firstIndex(of: "few") ?? 6) <= 2, "\(served)")
    }

    @Test("alternates between the clients of one caller")
    func alternatesBetweenClients() async throws {
        let (limit, gate, order) = (SignatureLimit(sessions: 1), Gate(), Order())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, client) in ["many", "many", "many", "few"].enumerated() {
                group.addTask {
                    try await limit.run(for: Requester(caller: "gateway", client: client), until: .now + .seconds(600))
                    {
                        order.append(client)
                        await gate.pass()
                    }
                }
                try await wait { gate.begun == 1 && limit.waiting == number }
            }
            gate.open()
            try await group.waitForAll()
        }
        #expect(order.names == ["many", "many", "few", "many"])
    }

    @Test("refuses signatures that exceed the number of places, and makes all others")
    func refusedBeyondCapacity() async throws {
        let (limit, gate) = (SignatureLimit(sessions: 2, capacity: 6), Gate())
        let (refused, made) = await withTaskGroup(of: WorkerFailure.Kind?.self) { group in
            for _ in 0..<10 {
                group.addTask {
                    do throws(WorkerFailure) {
                        try await limit.run(until: .now + .seconds(600)) { await gate.pass() }
                        return nil
                    } catch {
                        return error.kind
                    }
                }
            }
            // One signature is under way and three wait, so the other six are refused.
            var refused: [WorkerFailure.Kind?] = []
            for _ in 0..<6 { refused.append(await group.next() ?? nil) }
            gate.open()
            var made: [WorkerFailure.Kind?] = []
            for await outcome in group { made.append(outcome) }
            return (refused, made)
        }
        #expect(refused == [WorkerFailure.Kind?](repeating: .overloaded, count: 6))
        #expect(made == [nil, nil, nil, nil])
        #expect(gate.begun == 4)
        try await limit.run(until: .now + .seconds(600)) {}
    }

    @Test("does not make a call whose deadline has passed, and frees its place")
    func deadlinePassed() async throws {
        let limit = SignatureLimit(sessions: 1)
        let made = Atomic(false)
        await #expect(throws: WorkerFailure.self) {
            try await limit.run(until: .now - .seconds(1)) { made.store(true, ordering: .relaxed) }
        }
        let isMade = made.load(ordering: .relaxed)
        #expect(!isMade)
        try await limit.run(until: .now + .seconds(600)) {}
    }

    @Test("frees the place of a call that fails")
    func failingCallFreesPlace() async throws {
        let limit = SignatureLimit(sessions: 1)
        for _ in 0..<3 {
            await #expect(throws: WorkerFailure.self) {
                try await limit.run(until: .now + .seconds(600)) { () async throws(WorkerFailure) in
                    throw WorkerFailure(.hsmTokenUnavailable, "")
                }
            }
        }
        try await limit.run(until: .now + .seconds(600)) {}
    }
}
