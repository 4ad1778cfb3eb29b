import Testing
import WorkerProtocol

@testable import Daemon

/// Calls that another token may take over, calls that come from another token, and calls with a deadline.
@Suite struct CallTermsTests {
    private static func queue(refusedInputs: RefusedInputs = RefusedInputs()) -> CallQueue {
        CallQueue(
            limits: CallQueue.Limits(window: 2, waiting: 100, callTimeout: .seconds(5), recycleAfter: 1000),
            events: WorkerEvents(), refusedInputs: refusedInputs, recycleDue: { _ in })
    }

    private static func input(_ number: UInt8) -> WorkerRequest {
        .decrypt(
            Decryption(
                publicKeyHash: [number], scheme: .ecV1, keyMaterial: [], otherInfo: [], ciphertext: [number]))
    }

    private func until(_ condition: () throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while try !condition() {
            try #require(ContinuousClock.now < deadline)
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    private static func failure(_ result: CallResult) -> CallFailure? {
        if case .failure(let failure) = result { failure } else { nil }
    }

    @Test("what another token can take comes back when the worker ends: suspect if the worker had it, else not")
    func comesBack() async throws {
        let (queue, worker) = (Self.queue(), FakeWorker(1))
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        #expect(queue.load == 0)
        let calls = (1...3 as ClosedRange<UInt8>).map { number in
            Task { await queue.submit(Self.input(number), terms: CallTerms(comesBack: true)) }
        }
        let staying = Task { await queue.submit(Self.input(4)) }
        try await until { worker.count == 2 && queue.load == 4 }
        queue.ended(1)
        #expect(queue.load == nil)
        var reaches: [CallFailure.Reach] = []
        for call in calls {
            let failure = try #require(Self.failure(await call.value))
            #expect(failure.kind == .tokenUnavailable)
            reaches.append(failure.reach)
        }
        // The window held two; which of the four calls these were, the tasks' order decides.
        let suspects = reaches.filter { $0 == .endedWorker }.count
        #expect((1...2).contains(suspects) && reaches.filter { $0 == .queue }.count == 3 - suspects)
        // The one without another token waits for the next worker.
        let second = FakeWorker(2)
        queue.add(second.connected)
        _ = queue.serve(with: 2)
        try await until { second.count == 1 }
        #expect(try second.requests[0].request == Self.input(4))
        #expect(queue.received(.done, for: try second.requests[0].identifier, from: 2))
        #expect(try await staying.value.get() == .done)
    }

    @Test("an input that ended another token's worker goes alone, and after a second death no token takes it")
    func quarantineIsShared() async throws {
        let refusedInputs = RefusedInputs()
        let (first, second) = (Self.queue(refusedInputs: refusedInputs), Self.queue(refusedInputs: refusedInputs))
        let (worker, other) = (FakeWorker(1), FakeWorker(1))
        first.add(worker.connected)
        _ = first.serve(with: 1)
        second.add(other.connected)
        _ = second.serve(with: 1)
        let attempt = Task { await first.submit(Self.input(66), terms: CallTerms(comesBack: true)) }
        try await until { worker.count == 1 }
        first.ended(1)
        #expect(Self.failure(await attempt.value)?.reach == .endedWorker)
        #expect(refusedInputs.isEmpty)

        let innocent = Task { await second.submit(Self.input(1)) }
        try await until { other.count == 1 }
        let repetition = Task {
            await second.submit(Self.input(66), terms: CallTerms(isRepetition: true, runsAlone: true))
        }
        try await until { second.load == 2 }
        #expect(other.count == 1)
        #expect(second.received(.done, for: try other.requests[0].identifier, from: 1))
        #expect(try await innocent.value.get() == .done)
        try await until { other.count == 2 }
        second.ended(1)
        #expect(Self.failure(await repetition.value)?.kind == .tokenUnavailable)

        for queue in [first, second] {
            let next = FakeWorker(2)
            queue.add(next.connected)
            _ = queue.serve(with: 2)
            #expect(Self.failure(await queue.submit(Self.input(66)))?.kind == .inputRefused)
            let well = Task { await queue.submit(Self.input(67)) }
            try await until { next.count == 1 }
            #expect(queue.received(.done, for: try next.requests[0].identifier, from: 2))
            #expect(try await well.value.get() == .done)
        }
    }

    @Test("who waits is answered at the deadline, wherever the call is; the worker's later answer harms nothing")
    func deadlines() async throws {
        let (queue, worker) = (Self.queue(), FakeWorker(1))
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        let now = ContinuousClock.now
        let terms = CallTerms(deadline: now + .seconds(3))
        let calls = (1...3 as ClosedRange<UInt8>).map { number in
            Task { await queue.submit(Self.input(number), terms: terms) }
        }
        try await until { worker.count == 2 && queue.load == 3 }
        queue.expire(now: now + .seconds(2))
        #expect(queue.load == 3)
        queue.expire(now: now + .seconds(4))
        for call in calls { #expect(Self.failure(await call.value)?.kind == .deadlineExceeded) }
        #expect(worker.killed == nil)
        for request in try worker.requests {
            #expect(queue.received(.plaintext([1], tier: .c), for: request.identifier, from: 1))
        }
        #expect(queue.isIdle)
    }

    @Test("a suspect that waits for a worker is answered at its deadline, and not later made again")
    func suspectDeadline() async throws {
        let (queue, worker) = (Self.queue(), FakeWorker(1))
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        let now = ContinuousClock.now
        let call = Task { await queue.submit(Self.input(1), terms: CallTerms(deadline: now + .seconds(8))) }
        try await until { worker.count == 1 }
        queue.ended(1)
        queue.expire(now: now + .seconds(7))
        #expect(!queue.isIdle)
        queue.expire(now: now + .seconds(9))
        #expect(Self.failure(await call.value)?.kind == .deadlineExceeded)
        #expect(queue.isIdle)
        let second = FakeWorker(2)
        queue.add(second.connected)
        _ = queue.serve(with: 2)
        #expect(second.count == 0)
    }
}
