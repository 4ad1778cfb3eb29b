import TestSupport
import Testing
import WorkerProtocol

@testable import WorkerSupervision

/// Calls that fail at an HSM token: their repetition there or at another HSM token, the refusal of inputs that end
/// workers, and the deadlines. The workers of these tests only record the calls that they receive.
@Suite struct CallRepetitionTests {
    @Test("fails a call that another HSM token can take if the worker ends, and states whether the worker received it")
    func failsForAnotherToken() async throws {
        let (queue, worker) = (CallQueue.forTest(), FakeWorker(1))
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        #expect(queue.load == 0)
        let calls = (1...3 as ClosedRange<UInt8>).map { number in
            queue.attempt(.input(number), CallTerms(waitsForNextWorker: false))
        }
        let staying = queue.start(.input(4))
        try await wait { worker.count == 2 && queue.load == 4 }
        queue.ended(1)
        #expect(queue.load == nil)
        var stages: [CallFailure.Stage] = []
        for call in calls {
            let failure = try #require(await call.value.failure)
            #expect(failure.kind == .hsmTokenUnavailable)
            stages.append(failure.stage)
        }
        // The worker received two of the four calls. Which two depends on the order in which the tasks ran.
        let received = stages.filter { $0 == .endedWorker }.count
        #expect((1...2).contains(received) && stages.filter { $0 == .queue }.count == 3 - received)
        // The last call cannot go to another HSM token, so it waits for the next worker.
        let second = FakeWorker(2)
        queue.add(second.connected)
        _ = queue.serve(with: 2)
        try await wait { second.count == 1 }
        #expect(try second.requests[0].request == .input(4))
        #expect(queue.received(.done, for: try second.requests[0].identifier, from: 2))
        #expect(try await staying.value.get() == .done)
    }

    @Test("runs an input alone after it ended a worker, and refuses it at all HSM tokens after it ended a second one")
    func refusalIsShared() async throws {
        let refusedInputs = RefusedInputs()
        let (first, second) = (
            CallQueue.forTest(refusedInputs: refusedInputs), CallQueue.forTest(refusedInputs: refusedInputs)
        )
        let (worker, other) = (FakeWorker(1), FakeWorker(1))
        first.add(worker.connected)
        _ = first.serve(with: 1)
        second.add(other.connected)
        _ = second.serve(with: 1)
        let attempt = first.attempt(.input(66), CallTerms(waitsForNextWorker: false))
        try await wait { worker.count == 1 }
        first.ended(1)
        #expect(await attempt.value.failure?.stage == .endedWorker)
        #expect(refusedInputs.isEmpty)

        let innocent = second.start(.input(1))
        try await wait { other.count == 1 }
        let repetition = second.attempt(.input(66), CallTerms(isRepetition: true, runsAlone: true))
        try await wait { second.load == 2 }
        #expect(other.count == 1)
        #expect(second.received(.done, for: try other.requests[0].identifier, from: 1))
        #expect(try await innocent.value.get() == .done)
        try await wait { other.count == 2 }
        second.ended(1)
        #expect(await repetition.value.kind == .hsmTokenUnavailable)

        for queue in [first, second] {
            let next = FakeWorker(2)
            queue.add(next.connected)
            _ = queue.serve(with: 2)
            #expect(await queue.submit(.input(66)).kind == .inputRefused)
            let well = queue.start(.input(67))
            try await wait { next.count == 1 }
            #expect(queue.received(.done, for: try next.requests[0].identifier, from: 2))
            #expect(try await well.value.get() == .done)
        }
    }

    @Test("does not refuse a request of the daemon's own after it ended two workers")
    func ownRequest() async throws {
        let refusedInputs = RefusedInputs()
        let queue = CallQueue.forTest(refusedInputs: refusedInputs)
        for (request, isRefused) in [(WorkerRequest.listAuditKeys, false), (.input(66), true)] {
            let worker = queue.serve(1)
            let repetition = queue.attempt(request, CallTerms(isRepetition: true, runsAlone: true))
            try await wait { worker.count == 1 }
            queue.ended(1)
            #expect(await repetition.value.kind == .hsmTokenUnavailable)
            #expect(refusedInputs.isEmpty == !isRefused)
        }
    }

    @Test("marks a failure as unsent only if no worker received the call in any attempt")
    func unsentFailure() async throws {
        let queue = CallQueue.forTest()
        let gone = WorkerFailure(.hsmTokenUnavailable, "gone")
        queue.refuse(gone)
        #expect(await queue.submit(.input(1)).failure?.failure.isUnsent == true)
        let worker = queue.serve(1)
        let call = queue.start(.input(2))
        try await wait { worker.count == 1 }
        queue.ended(1)
        queue.refuse(gone)
        #expect(await call.value.failure?.failure.isUnsent == false)
    }

    @Test("answers queued calls and those at a worker at their deadline, and ignores the worker's later answers")
    func deadlines() async throws {
        let (queue, worker) = (CallQueue.forTest(), FakeWorker(1))
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        let now = ContinuousClock.now
        let terms = CallTerms(deadline: now + .seconds(3))
        let calls = (1...3 as ClosedRange<UInt8>).map { number in
            queue.start(.input(number), terms)
        }
        try await wait { worker.count == 2 && queue.load == 3 }
        queue.expire(now: now + .seconds(2))
        #expect(queue.load == 3)
        queue.expire(now: now + .seconds(4))
        for call in calls { #expect(await call.value.kind == .deadlineExceeded) }
        #expect(worker.killed == nil)
        for request in try worker.requests {
            #expect(queue.received(.plaintext([1], tier: .c), for: request.identifier, from: 1))
        }
        #expect(queue.isIdle)
    }

    @Test("answers a second attempt that waits for a worker at its deadline, and sends it to no later worker")
    func deadlineOfRepetition() async throws {
        let (queue, worker) = (CallQueue.forTest(), FakeWorker(1))
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        let now = ContinuousClock.now
        let call = queue.start(.input(1), CallTerms(deadline: now + .seconds(8)))
        try await wait { worker.count == 1 }
        queue.ended(1)
        try await wait { queue.waitingCount == 1 }
        queue.expire(now: now + .seconds(7))
        #expect(!queue.isIdle)
        queue.expire(now: now + .seconds(9))
        #expect(await call.value.kind == .deadlineExceeded)
        #expect(queue.isIdle)
        let second = FakeWorker(2)
        queue.add(second.connected)
        _ = queue.serve(with: 2)
        #expect(second.count == 0)
    }

    @Test("repeats the calls of a worker that ended once, one at a time, before the waiting calls")
    func lostCallsRunAlone() async throws {
        let queue = CallQueue.forTest(window: 2)
        let (first, second) = (FakeWorker(1), FakeWorker(2))
        queue.add(first.connected)
        _ = queue.serve(with: 1)
        let calls = (1...4).map { queue.start(.input($0)) }
        try await wait { first.count == 2 && queue.waitingCount == 2 }
        queue.ended(1)
        // The two calls that the worker had are queued again at once, long before another worker has opened the HSM
        // token.
        try await wait { queue.waitingCount == 4 }
        queue.add(second.connected)
        _ = queue.serve(with: 2)
        var lost = try first.requests.map(\.request)
        for count in 1...2 {
            try await wait { second.count == count }
            try await Task.sleep(for: .milliseconds(20))
            #expect(second.count == count)
            let again = try second.requests[count - 1]
            let number = try #require(lost.firstIndex(of: again.request))
            lost.remove(at: number)
            #expect(queue.received(.plaintext([], tier: .c), for: again.identifier, from: 2))
        }
        try await wait { second.count == 4 }
        for request in try second.requests[2...] {
            #expect(queue.received(.plaintext([], tier: .c), for: request.identifier, from: 2))
        }
        for call in calls { #expect(try await call.value.get() == .plaintext([], tier: .c)) }
    }

    @Test("refuses only the input that two workers had when they ended")
    func inputAtFault() async throws {
        let queue = CallQueue.forTest(window: 2)
        let first = queue.serve(1)
        let (killer, bystander) = (queue.start(.input(66)), queue.start(.input(1)))
        try await wait { first.count == 2 }
        queue.ended(1)
        try await wait { queue.waitingCount == 2 }
        // The queue may repeat either input first. In both cases, the second worker ends while it has input 66.
        let second = queue.serve(2)
        try await wait { second.count == 1 }
        if try second.requests[0].request == .input(1) {
            #expect(queue.received(.done, for: try second.requests[0].identifier, from: 2))
            try await wait { second.count == 2 }
        }
        #expect(try second.requests.last?.request == .input(66))
        queue.ended(2)
        #expect(await killer.value.kind == .hsmTokenUnavailable)
        let third = queue.serve(3)
        if !queue.isIdle {
            try await wait { third.count == 1 }
            #expect(queue.received(.done, for: try third.requests[0].identifier, from: 3))
        }
        #expect(await bystander.value.kind == nil)
        #expect(await queue.submit(.input(66)).kind == .inputRefused)
        let before = third.count
        let other = queue.start(.input(2))
        try await wait { third.count == before + 1 }
        #expect(queue.received(.done, for: try third.requests[before].identifier, from: 3))
        #expect(await other.value.kind == nil)
    }

    @Test("refuses an input for ten minutes, and remembers a bounded number of inputs")
    func refusalExpires() {
        let inputs = RefusedInputs()
        let now = ContinuousClock.now
        let frame = [UInt8](repeating: 1, count: 40)
        var renumbered = frame
        renumbered[12] = 99
        inputs.insert(frame, now: now)
        func remembers(_ frame: [UInt8], after seconds: Int = 0) -> Bool {
            inputs.secondsLeft(of: frame, now: now + .seconds(seconds)) != nil
        }
        #expect(remembers(renumbered, after: 599))
        #expect(!remembers(frame, after: 600))
        #expect(inputs.isEmpty)
        for number in 0..<UInt8(200) { inputs.insert([UInt8](repeating: number, count: 40), now: now) }
        #expect(!remembers([UInt8](repeating: 0, count: 40)))
        #expect(remembers([UInt8](repeating: 199, count: 40)))
    }

    @Test("does not repeat an import whose worker ended, and advises to list the keys")
    func importNotRepeated() async throws {
        let (queue, worker) = (CallQueue.forTest(), FakeWorker(1))
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        let call = queue.start(
            .importCertificate(CertificateToStore(publicKeyHash: [], merchantIdentifier: "m", certificate: [])))
        try await wait { worker.count == 1 }
        queue.ended(1)
        guard case .failure(let failure) = await call.value else {
            Issue.record("it was answered")
            return
        }
        #expect(failure.kind == .hsmTokenUnavailable)
        #expect(failure.message.contains("list the keys"))
        #expect(queue.isIdle)
    }

    @Test("kills a worker whose login is refused while it serves, and refuses no input for it")
    func refusedRenewal() async throws {
        let (queue, workers) = (CallQueue.forTest(), [FakeWorker(1), FakeWorker(2)])
        let call = queue.start(.probe)
        for worker in workers {
            queue.add(worker.connected)
            _ = queue.serve(with: worker.number)
            try await wait { worker.count == 1 }
            let refusal = WorkerAnswer.failed(WorkerFailure(.loginRefused, "C_Login: CKR_PIN_INCORRECT"))
            _ = queue.received(
                refusal, for: try worker.requests[0].identifier, from: worker.number)
            #expect(worker.killed == .hsmToken)
            queue.ended(worker.number)
        }
        #expect(await call.value.kind == .loginRefused)
        #expect(queue.isIdle)
    }

    @Test("repeats a call once at the next worker after a failure of the HSM token, and does not refuse its input")
    func tokenFailure() async throws {
        let queue = CallQueue.forTest()
        let (first, second) = (FakeWorker(1), FakeWorker(2))
        queue.add(first.connected)
        _ = queue.serve(with: 1)
        let call = queue.start(.input(1))
        try await wait { first.count == 1 }
        let dead = WorkerAnswer.failed(WorkerFailure(.hsmTokenUnavailable, "CKR_DEVICE_REMOVED"))
        let identifier = try first.requests[0].identifier
        #expect(queue.received(dead, for: identifier, from: 1))
        #expect(first.killed == .hsmToken)
        queue.ended(1)
        queue.add(second.connected)
        _ = queue.serve(with: 2)
        try await wait { second.count == 1 }
        #expect(queue.received(dead, for: try second.requests[0].identifier, from: 2))
        #expect(await call.value.kind == .hsmTokenUnavailable)
    }

    private static let recordCalls: [WorkerRequest] = [
        .listAuditKeys, .createAuditKey(identifier: Array(0..<16)),
        .signCheckpoint(CheckpointSigning(identifier: Array(0..<16), message: Array("{}".utf8), algorithm: .ecdsaP256)),
        .listHeads,
        .rememberHead(HeadToRemember(node: "n", line: [1])),
    ]

    @Test("attempts each of the audit record's calls twice when workers end, and not a third time", arguments: 0..<5)
    func recordRepeated(_ index: Int) async throws {
        let request = Self.recordCalls[index]
        let queue = CallQueue.forTest()
        let workers = (1...2).map { FakeWorker($0) }
        let call = queue.start(request)
        for worker in workers {
            queue.add(worker.connected)
            _ = queue.serve(with: worker.number)
            try await wait { worker.count == 1 }
            #expect(try worker.requests[0].request == request)
            queue.ended(worker.number)
        }
        #expect(await call.value.kind == .hsmTokenUnavailable)
        #expect(queue.isIdle)
    }

    // MARK: At another HSM token

    @Test("repeats a call alone at another HSM token when its worker ends, and makes no third attempt")
    func anotherToken() async throws {
        let (first, second, third) = (CallQueue.forTest(), CallQueue.forTest(), CallQueue.forTest())
        let (worker, other) = (first.serve(1), second.serve(1))
        _ = third.serve(1)
        let call = Task {
            await first.call(
                .input(1), orAt: { failed in [second, third].first { queue in !failed.contains { $0 === queue } } }
            ) { $0 }
        }
        try await wait { worker.count == 1 }
        first.ended(1)
        try await wait { other.count == 1 }
        let bystander = second.start(.input(2))
        try await wait { second.load == 2 }
        #expect(other.count == 1)
        second.ended(1)
        let outcome = await call.value
        #expect(outcome.result.kind == .hsmTokenUnavailable)
        #expect(outcome.queue === second)
        #expect(third.isIdle)
        let next = second.serve(2)
        try await wait { next.count == 1 }
        #expect(second.received(.done, for: try next.requests[0].identifier, from: 2))
        #expect(await bystander.value.kind == nil)
    }

    @Test("does not count an attempt that reached no worker, and returns the queue that answered")
    func notAttempted() async throws {
        let (first, second) = (CallQueue.forTest(), CallQueue.forTest())
        let other = second.serve(1)
        first.refuse(WorkerFailure(.hsmTokenUnavailable, "gone"))
        let call = Task { await first.call(.input(1), orAt: { $0.contains { $0 === second } ? nil : second }) { $0 } }
        try await wait { other.count == 1 }
        second.ended(1)
        try await wait { second.waitingCount == 1 }
        let next = second.serve(2)
        try await wait { next.count == 1 }
        #expect(second.received(.done, for: try next.requests[0].identifier, from: 2))
        let outcome = await call.value
        #expect(try outcome.result.get() == .done)
        #expect(outcome.queue === second)
    }

    @Test("repeats a call at the next worker of the first HSM token if the other HSM token is no longer available")
    func otherHSMTokenGone() async throws {
        let (first, second) = (CallQueue.forTest(), CallQueue.forTest())
        let worker = first.serve(1)
        let isThere = Shared(true)
        let call = Task { await first.call(.input(1), orAt: { _ in isThere.current ? second : nil }) { $0 } }
        try await wait { worker.count == 1 }
        isThere.change { $0 = false }
        first.ended(1)
        try await wait { first.waitingCount == 1 }
        let next = first.serve(2)
        try await wait { next.count == 1 }
        #expect(first.received(.done, for: try next.requests[0].identifier, from: 2))
        #expect(try await call.value.result.get() == .done)
        #expect(second.isIdle)
    }

    @Test("does not repeat a call after an invalid input, nor after a wrong answer if there is no other HSM token")
    func noRepetitionAfterInvalidInput() async throws {
        let (first, second) = (CallQueue.forTest(), CallQueue.forTest())
        let worker = first.serve(1)
        let refused = Task { await first.call(.input(1), orAt: { _ in second }) { $0 }.result }
        try await wait { worker.count == 1 }
        let failure = WorkerAnswer.failed(WorkerFailure(.decryptionFailed, "GCM"))
        #expect(first.received(failure, for: try worker.requests[0].identifier, from: 1))
        #expect(await refused.value.kind == .decryptionFailed)
        let wrong = Task { await first.call(.input(2)) { $0 == .done ? $0 : nil }.result }
        try await wait { worker.count == 2 }
        #expect(first.received(.plaintext([], tier: .c), for: try worker.requests[1].identifier, from: 1))
        #expect(await wrong.value.kind == .protocolViolation)
        #expect(second.isIdle)
    }
}
