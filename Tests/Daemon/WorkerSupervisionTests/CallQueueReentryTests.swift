import TestSupport
import Testing
import WorkerProtocol

@testable import WorkerSupervision

/// An executor that resumes a task inside `enqueue`. When the queue answers a call, the caller therefore continues on
/// the queue's thread, before the queue's function returns.
private final class InlineExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        unsafe job.runSynchronously(on: asUnownedTaskExecutor())
    }
}

/// Callers and workers that use the queue again, on the same thread, while the queue answers the caller or closes the
/// worker. The queue would deadlock if it held its lock at that time.
@Suite struct CallQueueReentryTests {
    enum Answer: CaseIterable {
        case answered, failed, workerEnded, refused, givenUp, expired, callerLeft
    }

    @Test("lets an answered caller call the queue at once", arguments: Answer.allCases)
    func answeredCaller(_ answer: Answer) async throws {
        let queue = CallQueue.forTest()
        let worker = FakeWorker(1)
        queue.add(worker.connected)
        if ![.refused, .callerLeft].contains(answer) { #expect(queue.serve(with: 1)) }
        let hasLeft = Shared(false)
        var terms = CallTerms(requester: Requester(hasLeft: { hasLeft.current }))
        if answer == .expired { terms.deadline = .now }
        let call = Task(executorPreference: InlineExecutor()) { [terms] in
            let result = await queue.submit(.input(1), terms: terms)
            return (result, queue.isIdle)
        }
        let isQueued = [.refused, .callerLeft].contains(answer)
        try await wait { isQueued ? queue.waitingCount == 1 : worker.count == 1 }
        let gone = WorkerFailure(.hsmTokenUnavailable, "gone")
        switch answer {
        case .answered:
            #expect(queue.received(.plaintext([1], tier: .c), for: try worker.requests[0].identifier, from: 1))
        case .failed: #expect(queue.received(.failed(gone), for: try worker.requests[0].identifier, from: 1))
        case .workerEnded: queue.ended(1)
        case .refused: queue.refuse(gone)
        case .givenUp: queue.giveUp(gone)
        case .expired: queue.expire(now: .now + .seconds(1))
        case .callerLeft:
            hasLeft.change { $0 = true }
            #expect(queue.serve(with: 1))
        }
        let (result, isIdle) = await call.value
        #expect((result.failure == nil) == (answer == .answered))
        // After `giveUp` or `expire`, the worker still has the call, so the queue is not idle.
        #expect(isIdle == ![.givenUp, .expired].contains(answer))
    }

    @Test("lets a worker report its end while the queue closes or kills it")
    func endedWorker() async throws {
        let queue = CallQueue.forTest(callTimeout: .seconds(1))
        for number: UInt64 in [1, 2] {
            queue.add(
                ConnectedWorker(
                    number: number, send: { _ in }, close: { queue.ended(number) }, kill: { _ in queue.ended(number) }))
            #expect(queue.serve(with: number))
        }
        #expect(!queue.serve(with: 1), "worker 1 has ended")
        let call = queue.attempt(.input(1))
        try await wait { queue.load == 1 }
        queue.expire(now: .now + .seconds(3600))
        #expect(await call.value.kind == .hsmTokenUnavailable)
        queue.closeAll()
        #expect(queue.isIdle)
    }
}
