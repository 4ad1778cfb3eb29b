import TestSupport
import Testing
import WorkerProtocol

@testable import WorkerSupervision

/// The time limit of calls, the number of calls that a worker receives in advance, and the wait for a worker. The tests
/// pass times to the queue as arguments, so they need not wait.
@Suite struct CallTimeTests {
    private static func queue(window: Int = 16, sessions: Int = 2) -> CallQueue {
        CallQueue.forTest(window: window, waiting: 200, sessions: sessions)
    }

    /// Starts `calls` calls. Once all of them wait, adds a worker, which must receive `sent` of them. The time limits
    /// of the sent calls begin at the returned `began`.
    private func startCalls(
        _ queue: CallQueue, calls: Int, sent: Int
    ) async throws -> (worker: FakeWorker, calls: [Task<CallResult, Never>], began: ContinuousClock.Instant) {
        let tasks = (1...calls).map { queue.start(.input(UInt8($0))) }
        try await wait { queue.waitingCount == calls }
        let worker = FakeWorker(1)
        queue.add(worker.connected)
        let began = ContinuousClock.now
        #expect(queue.serve(with: 1, now: began))
        #expect(queue.load == calls && worker.count == sent)
        return (worker, tasks, began)
    }

    @Test("counts a call's limit from the start of its session, and not from its arrival at the worker")
    func limitFromBeginning() async throws {
        let queue = Self.queue()
        let (worker, calls, began) = try await startCalls(queue, calls: 4, sent: 3)
        let sent = try worker.requests
        // The worker has two sessions, so its third call waits until one of the first two is answered.
        for call in sent[..<2] {
            #expect(queue.received(.plaintext([], tier: .c), for: call.identifier, from: 1, now: began + .seconds(4)))
        }
        #expect(worker.count == 4)
        queue.expire(now: began + .seconds(8))
        #expect(worker.killed == nil)
        for call in try worker.requests[2...] {
            #expect(queue.received(.plaintext([], tier: .c), for: call.identifier, from: 1, now: began + .seconds(8)))
        }
        for call in calls { #expect(try await call.value.get() == .plaintext([], tier: .c)) }
    }

    @Test("kills a worker that answers nothing when the oldest call reaches its limit")
    func noAnswers() async throws {
        let queue = Self.queue()
        let (worker, calls, now) = try await startCalls(queue, calls: 4, sent: 3)
        queue.expire(now: now + .seconds(4))
        #expect(worker.killed == nil)
        queue.expire(now: now + .seconds(6))
        #expect(worker.killed == .timeout)
        queue.ended(1)
        queue.refuse(WorkerFailure(.hsmTokenUnavailable, "gone"))
        for call in calls { #expect(await call.value.kind == .hsmTokenUnavailable) }
    }

    @Test("kills a worker with one hanging session although the other one keeps answering")
    func oneSessionHangs() async throws {
        let queue = Self.queue()
        let (worker, calls, began) = try await startCalls(queue, calls: 30, sent: 3)
        let hung = try worker.requests[0].identifier
        for second in 1...20 where worker.killed == nil {
            let now = began + .seconds(second)
            // This is the oldest unanswered call apart from the call that hangs.
            let next = try worker.requests[second].identifier
            #expect(next != hung && queue.received(.plaintext([], tier: .c), for: next, from: 1, now: now))
            queue.expire(now: now)
        }
        #expect(worker.killed == .timeout)
        #expect(worker.count < 12, "the worker was killed long after the call's limit")
        queue.ended(1)
        queue.refuse(WorkerFailure(.hsmTokenUnavailable, "gone"))
        for call in calls { _ = await call.value }
    }

    @Test("keeps a worker that answers and has fewer sessions than the daemon expects")
    func fewerSessions() async throws {
        let queue = Self.queue(sessions: 4)
        let (worker, calls, began) = try await startCalls(queue, calls: 6, sent: 5)
        for number in 0..<6 {
            let now = began + .seconds(4 * (number + 1))
            queue.expire(now: now)
            #expect(worker.killed == nil, "at call \(number)")
            let call = try worker.requests[number]
            #expect(queue.received(.plaintext([], tier: .c), for: call.identifier, from: 1, now: now))
        }
        for call in calls { #expect(try await call.value.get() == .plaintext([], tier: .c)) }
    }

    @Test("gives the worker of a fast HSM token many calls, and of a slow HSM token one more than it has sessions")
    func windowFollowsHSMTokenSpeed() {
        func window(after seconds: [Double], sessions: Int = 2) -> Int {
            var pace = CallPace()
            for second in seconds { pace.took(second) }
            return pace.window(sessions: sessions, atMost: sessions * 8)
        }
        #expect(window(after: []) == 3)
        #expect(window(after: [0.00015]) == 16)
        #expect(window(after: [0]) == 16)
        #expect(window(after: [0.005]) == 4)
        #expect(window(after: [1.3]) == 3)
        #expect(window(after: [1.3], sessions: 1) == 2)
        #expect(window(after: [1.3], sessions: 64) == 65)
        // The window shrinks at the first slow answer, and grows again after many fast answers.
        let fast = [Double](repeating: 0.00015, count: 1000)
        #expect(window(after: fast + [1.3]) == 3)
        #expect(window(after: [1.3] + fast) == 16)
    }

    @Test("gives a worker with slow answers at most one unanswered call more than it has sessions")
    func slowAnswers() async throws {
        let queue = Self.queue()
        let (worker, calls, began) = try await startCalls(queue, calls: 40, sent: 3)
        for number in 0..<40 {
            let call = try worker.requests[number]
            #expect(
                queue.received(
                    .plaintext([], tier: .c), for: call.identifier, from: 1, now: began + .seconds(2 * (number / 2 + 1))
                ))
            #expect(worker.count - (number + 1) <= 3)
        }
        for call in calls { _ = await call.value }
    }

    @Test("keeps calls waiting while a worker hangs and the next one starts, which then answers them")
    func waitingForNextWorker() async throws {
        let queue = Self.queue()
        let (worker, calls, now) = try await startCalls(queue, calls: 8, sent: 3)
        queue.expire(now: now + .seconds(6))
        #expect(worker.killed == .timeout)
        queue.ended(1)
        try await wait { queue.waitingCount == 8 }
        // No worker serves now, so the calls keep waiting, although more time than `call_timeout` has passed.
        queue.expire(now: now + .seconds(9))
        #expect(!queue.isIdle)
        let next = FakeWorker(2)
        queue.add(next.connected)
        #expect(queue.serve(with: 2, now: now + .seconds(10)))
        queue.expire(now: now + .seconds(10))
        for number in 0..<8 {
            try await wait { next.count > number }
            let at = now + .seconds(11) + .milliseconds(100 * number)
            queue.expire(now: at)
            #expect(
                queue.received(.plaintext([], tier: .c), for: try next.requests[number].identifier, from: 2, now: at))
        }
        for call in calls { #expect(try await call.value.get() == .plaintext([], tier: .c)) }
    }

    @Test("fails a call without a deadline after call_timeout plus the longest wait if no worker serves")
    func noWorker() async throws {
        let queue = Self.queue()
        let call = queue.start(.input(1))
        try await wait { !queue.isIdle }
        queue.expire(now: .now + .seconds(8))
        #expect(!queue.isIdle)
        queue.expire(now: .now + .seconds(16))
        #expect(await call.value.kind == .hsmTokenUnavailable)
    }

    @Test("fails a call that waited too long as overloaded while a worker answers other calls")
    func waitedTooLong() async throws {
        let queue = Self.queue(window: 1, sessions: 1)
        let (worker, calls, began) = try await startCalls(queue, calls: 8, sent: 1)
        for number in 0..<3 {
            let at = began + .seconds(4 * (number + 1))
            #expect(
                queue.received(.plaintext([], tier: .c), for: try worker.requests[number].identifier, from: 1, now: at))
            queue.expire(now: at)
        }
        // After 12 s, the worker has received the fourth call, and the last four calls have waited for more than 10 s.
        var kinds: [WorkerFailure.Kind?] = []
        try await wait { queue.load == 1 }
        #expect(
            queue.received(
                .plaintext([], tier: .c), for: try worker.requests[3].identifier, from: 1, now: began + .seconds(13)))
        for call in calls { kinds.append(await call.value.kind) }
        #expect(kinds.count { $0 == nil } == 4)
        #expect(kinds.count { $0 == .overloaded } == 4)
    }

    @Test("answers both queued calls and those at a worker when it gives up, and starts none of them later")
    func givenUp() async throws {
        let queue = Self.queue()
        let (worker, calls, _) = try await startCalls(queue, calls: 8, sent: 3)
        #expect(queue.giveUp(WorkerFailure(.hsmTokenUnavailable, "The daemon is shutting down.")) == 3)
        for call in calls { #expect(await call.value.kind == .hsmTokenUnavailable) }
        let next = FakeWorker(2)
        queue.add(next.connected)
        #expect(!queue.serve(with: 2))
        #expect((await queue.submit(.input(9))).failure?.message == "The daemon is shutting down.")
        // All callers have received their answers. The queue still accepts the worker's late answer and the worker's
        // end.
        #expect(queue.received(.plaintext([], tier: .c), for: try worker.requests[0].identifier, from: 1))
        queue.ended(1)
        #expect(queue.isIdle)
    }
}
