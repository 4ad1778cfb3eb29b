import Synchronization
import TestSupport
import Testing
import WorkerProtocol

@testable import Daemon

/// The queue between the daemon's calls and its workers, with workers that only write down what they were sent.
@Suite struct CallQueueTests {
    private static func queue(
        window: Int = 2, waiting: Int = 100, recycleAfter: Int = 1000,
        recycleDue: @escaping @Sendable (UInt64) -> Void = { _ in }
    ) -> CallQueue {
        CallQueue(
            limits: CallQueue.Limits(
                window: window, waiting: waiting, callTimeout: .seconds(5), recycleAfter: recycleAfter),
            events: WorkerEvents(), recycleDue: recycleDue)
    }

    private static func input(_ number: UInt8) -> WorkerRequest {
        .decrypt(
            Decryption(
                publicKeyHash: [number], scheme: .ecV1, keyMaterial: [], otherInfo: [], ciphertext: [number]))
    }

    /// Submits without waiting for the answer.
    private static func submit(_ request: WorkerRequest, to queue: CallQueue) -> Task<CallResult, Never> {
        Task { await queue.submit(request) }
    }

    private func until(_ condition: () throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while try !condition() {
            try #require(ContinuousClock.now < deadline)
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    private static func kind(_ result: CallResult) -> WorkerFailure.Kind? {
        if case .failure(let failure) = result { failure.kind } else { nil }
    }

    @Test("a worker holds no more than its window, and answers may come in any order")
    func window() async throws {
        let (queue, worker) = (Self.queue(window: 2), FakeWorker(1))
        queue.add(worker.lane)
        #expect(queue.serve(with: 1))
        let calls = (1...3).map { Self.submit(Self.input($0), to: queue) }
        try await until { worker.count == 2 }
        let sent = try worker.requests
        #expect(queue.received(.plaintext([2], tier: .c), for: sent[1].identifier, from: 1))
        try await until { worker.count == 3 }
        for request in try worker.requests where request.identifier != sent[1].identifier {
            #expect(queue.received(.plaintext([9], tier: .c), for: request.identifier, from: 1))
        }
        var answers = 0
        for call in calls where try await call.value.get() == .plaintext([2], tier: .c) { answers += 1 }
        #expect(answers == 1)
        #expect(queue.isIdle)
    }

    @Test("one call more than may wait is overloaded, at once")
    func overloaded() async throws {
        let queue = Self.queue(waiting: 4)
        let refused = Shared(0)
        let calls = (1...5 as ClosedRange<UInt8>).map { number in
            Task {
                let kind = Self.kind(await queue.submit(Self.input(number)))
                if kind == .overloaded { refused.change { $0 += 1 } }
                return kind
            }
        }
        // Without a worker two wait, whichever came first: a caller alone has half of the room.
        try await until { refused.current == 3 }
        queue.refuse(WorkerFailure(.tokenUnavailable, "gone"))
        var kinds: [WorkerFailure.Kind?] = []
        for call in calls { kinds.append(await call.value) }
        #expect(kinds.filter { $0 == .tokenUnavailable }.count == 2)
    }

    @Test("what a dead worker held is made once more, one call at a time, before what waits")
    func suspectsAlone() async throws {
        let queue = Self.queue(window: 2)
        let (first, second) = (FakeWorker(1), FakeWorker(2))
        queue.add(first.lane)
        _ = queue.serve(with: 1)
        let calls = (1...4).map { Self.submit(Self.input($0), to: queue) }
        try await until { first.count == 2 }
        queue.ended(1)
        queue.add(second.lane)
        _ = queue.serve(with: 2)
        let suspects = try first.requests
        try await until { second.count == 1 }
        try await Task.sleep(for: .milliseconds(20))
        #expect(second.count == 1)
        #expect(try second.requests[0].request == suspects[0].request)
        #expect(queue.received(.plaintext([], tier: .c), for: suspects[0].identifier, from: 2))
        try await until { second.count == 2 }
        #expect(try second.requests[1].request == suspects[1].request)
        #expect(queue.received(.plaintext([], tier: .c), for: suspects[1].identifier, from: 2))
        try await until { second.count == 4 }
        for request in try second.requests[2...] {
            #expect(queue.received(.plaintext([], tier: .c), for: request.identifier, from: 2))
        }
        for call in calls { #expect(try await call.value.get() == .plaintext([], tier: .c)) }
    }

    @Test("the input at fault for a second death is refused, the others are not")
    func quarantine() async throws {
        let queue = Self.queue(window: 2)
        queue.add(FakeWorker(1).lane)
        _ = queue.serve(with: 1)
        let killer = Self.submit(Self.input(66), to: queue)
        try await until { !queue.isIdle }
        let bystander = Self.submit(Self.input(1), to: queue)
        try await Task.sleep(for: .milliseconds(20))
        queue.ended(1)
        let second = FakeWorker(2)
        queue.add(second.lane)
        _ = queue.serve(with: 2)
        try await until { second.count == 1 }
        #expect(try second.requests[0].request == Self.input(66))
        queue.ended(2)
        #expect(Self.kind(await killer.value) == .tokenUnavailable)
        let third = FakeWorker(3)
        queue.add(third.lane)
        _ = queue.serve(with: 3)
        try await until { third.count == 1 }
        #expect(queue.received(.done, for: try third.requests[0].identifier, from: 3))
        #expect(Self.kind(await bystander.value) == nil)
        #expect(Self.kind(await queue.submit(Self.input(66))) == .inputQuarantined)
        let other = Self.submit(Self.input(2), to: queue)
        try await until { third.count == 2 }
        #expect(queue.received(.done, for: try third.requests[1].identifier, from: 3))
        _ = await other.value
    }

    @Test("a quarantine ends after ten minutes and remembers a bounded number of inputs")
    func quarantineEnds() {
        let inputs = QuarantinedInputs()
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

    @Test("an import that a worker took with it is not made again, and says so")
    func importNotRepeated() async throws {
        let (queue, worker) = (Self.queue(), FakeWorker(1))
        queue.add(worker.lane)
        _ = queue.serve(with: 1)
        let call = Self.submit(
            .importCertificate(CertificateImport(publicKeyHash: [], merchantIdentifier: "m", certificate: [])),
            to: queue)
        try await until { worker.count == 1 }
        queue.ended(1)
        guard case .failure(let failure) = await call.value else {
            Issue.record("it was answered")
            return
        }
        #expect(failure.kind == .tokenUnavailable)
        #expect(failure.message.contains("list the keys"))
        #expect(queue.isIdle)
    }

    @Test("a worker that could not open its token is let go at its answer: its end is then no death")
    func refusedOpening() async throws {
        let (queue, worker) = (Self.queue(), FakeWorker(1))
        queue.add(worker.lane)
        let opening = TokenOpening(
            programVersion: "1", modulePath: "/m", tokenURI: "pkcs11:token=t", pinFile: "/p", sessions: 1,
            initializationString: "", allowExtractableSecret: true)
        let call = Task { await queue.submit(.open(opening), to: 1) }
        try await until { worker.count == 1 }
        let refusal = WorkerAnswer.failed(WorkerFailure(.loginRefused, "C_Login: CKR_PIN_INCORRECT"))
        #expect(queue.received(refusal, for: try worker.requests[0].identifier, from: 1))
        #expect(worker.isClosed)
        #expect(worker.killed == nil)
        #expect(Self.kind(await call.value) == .loginRefused)
    }

    @Test("a login that is refused while a worker serves ends that worker: nobody's input is to blame")
    func refusedRenewal() async throws {
        let (queue, workers) = (Self.queue(), [FakeWorker(1), FakeWorker(2)])
        let call = Self.submit(.probe, to: queue)
        for worker in workers {
            queue.add(worker.lane)
            _ = queue.serve(with: worker.identifier)
            try await until { worker.count == 1 }
            let refusal = WorkerAnswer.failed(WorkerFailure(.loginRefused, "C_Login: CKR_PIN_INCORRECT"))
            _ = queue.received(
                refusal, for: try worker.requests[0].identifier, from: worker.identifier)
            #expect(worker.killed == .token)
            queue.ended(worker.identifier)
        }
        #expect(Self.kind(await call.value) == .loginRefused)
        #expect(queue.isIdle)
    }

    @Test("what a worker holds beyond its sessions is still waiting: the token's time begins when its turn comes")
    func waitingWithWorker() async throws {
        let (waits, calls) = (Shared(0), Shared([Double]()))
        let events = WorkerEvents(
            waited: { _ in waits.change { $0 += 1 } }, called: { _, seconds in calls.change { $0.append(seconds) } })
        let queue = CallQueue(
            limits: CallQueue.Limits(
                window: 8, waiting: 100, callTimeout: .seconds(60), recycleAfter: 1000, sessions: 2),
            events: events, recycleDue: { _ in })
        let worker = FakeWorker(1)
        queue.add(worker.lane)
        _ = queue.serve(with: 1)
        let all = (0..<5).map { _ in Self.submit(.probe, to: queue) }
        // One more than the sessions work on is handed over before anything is known of the token's speed.
        try await until { worker.count == 3 && queue.load == 5 }
        #expect(waits.current == 2)
        for number in 0..<5 {
            #expect(queue.received(.done, for: try worker.requests[number].identifier, from: 1))
            #expect(waits.current == min(number + 3, 5))
            #expect(calls.current.count == number + 1)
        }
        for call in all { _ = await call.value }
        #expect(queue.isIdle)
    }

    private static let recordCalls: [WorkerRequest] = [
        .listAuditKeys, .createAuditKey(identifier: Array(0..<16)),
        .signCheckpoint(CheckpointSigning(identifier: Array(0..<16), message: Array("{}".utf8))), .listHeads,
        .rememberHead(HeadToRemember(node: "n", line: [1])),
    ]

    @Test("what the key-usage record asks is made once more when a worker ends, and not a third time", arguments: 0..<5)
    func recordRepeated(_ index: Int) async throws {
        let request = Self.recordCalls[index]
        let queue = Self.queue()
        let workers = (1...2).map { FakeWorker($0) }
        let call = Self.submit(request, to: queue)
        for worker in workers {
            queue.add(worker.lane)
            _ = queue.serve(with: worker.identifier)
            try await until { worker.count == 1 }
            #expect(try worker.requests[0].request == request)
            queue.ended(worker.identifier)
        }
        #expect(Self.kind(await call.value) == .tokenUnavailable)
        #expect(queue.isIdle)
    }

    @Test("a token's own failure is repeated at the next worker without blame")
    func tokenFailure() async throws {
        let queue = Self.queue()
        let (first, second) = (FakeWorker(1), FakeWorker(2))
        queue.add(first.lane)
        _ = queue.serve(with: 1)
        let call = Self.submit(Self.input(1), to: queue)
        try await until { first.count == 1 }
        let dead = WorkerAnswer.failed(WorkerFailure(.tokenUnavailable, "CKR_DEVICE_REMOVED"))
        let identifier = try first.requests[0].identifier
        #expect(queue.received(dead, for: identifier, from: 1))
        #expect(first.killed == .token)
        queue.ended(1)
        queue.add(second.lane)
        _ = queue.serve(with: 2)
        try await until { second.count == 1 }
        #expect(queue.received(dead, for: identifier, from: 2))
        #expect(Self.kind(await call.value) == .tokenUnavailable)
    }

    @Test("a call past its limit ends the worker")
    func timeout() async throws {
        let (queue, worker) = (Self.queue(), FakeWorker(1))
        queue.add(worker.lane)
        _ = queue.serve(with: 1)
        let call = Self.submit(Self.input(1), to: queue)
        try await until { worker.count == 1 }
        queue.expire(now: .now + .seconds(4))
        #expect(worker.killed == nil)
        queue.expire(now: .now + .seconds(6))
        #expect(worker.killed == .timeout)
        queue.ended(1)
        queue.refuse(WorkerFailure(.tokenUnavailable, "no worker"))
        #expect(Self.kind(await call.value) == .tokenUnavailable)
    }

    @Test("a call that waited too long fails: overloaded beside a worker, tokenUnavailable without one")
    func waitedTooLong() async throws {
        let (queue, worker) = (Self.queue(window: 1), FakeWorker(1))
        let early = Self.submit(Self.input(1), to: queue)
        try await until { !queue.isIdle }
        queue.expire(now: .now + .seconds(16))
        #expect(Self.kind(await early.value) == .tokenUnavailable)
        queue.add(worker.lane)
        _ = queue.serve(with: 1)
        let calls = (1...2).map { Self.submit(Self.input($0), to: queue) }
        try await until { worker.count == 1 }
        try await Task.sleep(for: .milliseconds(20))
        queue.expire(now: .now + .seconds(5) - .milliseconds(1))
        queue.ended(1)
        queue.refuse(WorkerFailure(.tokenUnavailable, "no worker"))
        for call in calls { #expect(Self.kind(await call.value) == .tokenUnavailable) }
    }

    @Test("a successor takes new calls at once, and the old worker is let go after its last answer")
    func recycling() async throws {
        let due = Shared<[UInt64]>([])
        let queue = Self.queue(window: 8, recycleAfter: 2, recycleDue: { lane in due.change { $0.append(lane) } })
        let (old, new) = (FakeWorker(1), FakeWorker(2))
        queue.add(old.lane)
        _ = queue.serve(with: 1)
        let calls = (1...3).map { Self.submit(Self.input($0), to: queue) }
        try await until { old.count == 3 }
        let sent = try old.requests
        for request in sent[..<2] { #expect(queue.received(.done, for: request.identifier, from: 1)) }
        #expect(due.current == [1])
        queue.add(new.lane)
        #expect(queue.serve(with: 2))
        #expect(!old.isClosed)
        let later = Self.submit(Self.input(4), to: queue)
        try await until { new.count == 1 }
        #expect(old.count == 3)
        #expect(queue.received(.done, for: sent[2].identifier, from: 1))
        #expect(old.isClosed)
        #expect(queue.received(.done, for: try new.requests[0].identifier, from: 2))
        for call in calls + [later] { #expect(try await call.value.get() == .done) }
    }

    @Test("an answer that nobody asked this worker for is not taken")
    func unaskedAnswer() async throws {
        let queue = Self.queue()
        let (first, second) = (FakeWorker(1), FakeWorker(2))
        queue.add(first.lane)
        queue.add(second.lane)
        _ = queue.serve(with: 1)
        let call = Self.submit(Self.input(1), to: queue)
        try await until { first.count == 1 }
        let identifier = try first.requests[0].identifier
        #expect(!queue.received(.done, for: identifier + 1, from: 1))
        #expect(!queue.received(.done, for: identifier, from: 2))
        #expect(queue.received(.done, for: identifier, from: 1))
        #expect(!queue.received(.done, for: identifier, from: 1))
        #expect(try await call.value.get() == .done)
    }

    @Test("pauses grow while workers die young, and a refused PIN is not tried again by itself")
    func pauses() {
        var delay = RespawnDelay()
        let young = (0..<8).map { _ in delay.afterDeath(served: .seconds(1)) }
        #expect(
            young == [
                .zero, .seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(16), .seconds(30), .seconds(30),
            ])
        #expect(delay.afterDeath(served: .seconds(31)) == .zero)
        // One that answered calls before it ended is soon there again, however often that happens.
        let useful = (0..<4).map { _ in delay.afterDeath(served: .seconds(1), wasUseful: true) }
        #expect(useful == Array(repeating: RespawnDelay.useful, count: 4))
        #expect(RespawnDelay.useful < .seconds(1))
        let absent = WorkerFailure(.tokenUnavailable, "absent")
        let retries = (0..<5).map { _ in delay.afterRefusal(absent) }
        #expect(retries == [.seconds(1), .seconds(2), .seconds(4), .seconds(5), .seconds(5)])
        #expect(delay.afterRefusal(WorkerFailure(.loginRefused, "PIN")) == nil)
    }
}
