import Locks
import Telemetry
import TestSupport
import Testing
import WorkerProtocol

@testable import WorkerSupervision

/// The queue between the daemon's calls and its workers, with workers that only record the calls they receive.
@Suite struct CallQueueTests {
    @Test("limits a worker to its window, and accepts answers in any order")
    func limitsWorkerToWindow() async throws {
        let (queue, worker) = (CallQueue.forTest(window: 2), FakeWorker(1))
        queue.add(worker.connected)
        #expect(queue.serve(with: 1))
        let calls = (1...3).map { queue.start(.input($0)) }
        try await wait { worker.count == 2 }
        let sent = try worker.requests
        #expect(queue.received(.plaintext([2], tier: .c), for: sent[1].identifier, from: 1))
        try await wait { worker.count == 3 }
        for request in try worker.requests where request.identifier != sent[1].identifier {
            #expect(queue.received(.plaintext([9], tier: .c), for: request.identifier, from: 1))
        }
        var answers = 0
        for call in calls where try await call.value.get() == .plaintext([2], tier: .c) { answers += 1 }
        #expect(answers == 1)
        #expect(queue.isIdle)
    }

    @Test("refuses one call more than may wait as overloaded, at once")
    func overloaded() async throws {
        let queue = CallQueue.forTest(waiting: 4)
        let refused = Shared(0)
        let calls = (1...5 as ClosedRange<UInt8>).map { number in
            Task {
                let kind = await queue.submit(.input(number)).kind
                if kind == .overloaded { refused.change { $0 += 1 } }
                return kind
            }
        }
        // A single caller may fill half of the queue, so two of the caller's calls wait and three are refused.
        try await wait { refused.current == 3 }
        queue.refuse(WorkerFailure(.hsmTokenUnavailable, "gone"))
        var kinds: [WorkerFailure.Kind?] = []
        for call in calls { kinds.append(await call.value) }
        #expect(kinds.filter { $0 == .hsmTokenUnavailable }.count == 2)
    }

    @Test("closes, and does not kill, a worker that answers that it could not open its HSM token")
    func refusedOpening() async throws {
        let (queue, worker) = (CallQueue.forTest(), FakeWorker(1))
        queue.add(worker.connected)
        let opening = HSMTokenOpening(
            programVersion: "1", modulePath: "/m", tokenURI: "pkcs11:token=t", pinFile: "/p", sessions: 1,
            initializationString: "", allowExtractableSecret: true)
        let call = Task { await queue.submit(.open(opening), to: 1) }
        try await wait { worker.count == 1 }
        let refusal = WorkerAnswer.failed(WorkerFailure(.loginRefused, "C_Login: CKR_PIN_INCORRECT"))
        #expect(queue.received(refusal, for: try worker.requests[0].identifier, from: 1))
        #expect(worker.isClosed)
        #expect(worker.killed == nil)
        #expect(await call.value.kind == .loginRefused)
    }

    @Test("counts a call as waiting until a session of its worker is free, and measures its time from then on")
    func waitingWithWorker() async throws {
        let waits = Histogram("waits", help: "", bounds: [])
        let calls = Histogram("calls", help: "", labels: ["token", "operation"], bounds: [])
        let events = WorkerEvents(metrics: CallMetrics(hsmToken: "primary", waits: waits, calls: calls))
        func count(_ metric: some MetricFamily, _ series: String) -> Int? {
            var text = MetricsText()
            metric.expose(to: &text)
            return text.text.split(separator: "\n").first { $0.hasPrefix(series) }.flatMap {
                Int($0.dropFirst(series.count))
            }
        }
        func waitCount() -> Int? { count(waits, "waits_count ") }
        func callCount() -> Int? { count(calls, #"calls_count{token="primary",operation="probe"} "#) }
        let queue = CallQueue(
            limits: CallQueue.Limits(
                window: 8, waiting: 100, callTimeout: .seconds(60), recycleAfter: 1000, sessions: 2),
            events: events, recycleDue: { _ in })
        let worker = FakeWorker(1)
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        let all = (0..<5).map { _ in queue.start(.probe) }
        // Until the HSM token's speed is known, the worker receives one call more than it has sessions.
        try await wait { worker.count == 3 && queue.load == 5 }
        #expect(waitCount() == 2)
        for number in 0..<5 {
            #expect(queue.received(.done, for: try worker.requests[number].identifier, from: 1))
            #expect(waitCount() == min(number + 3, 5))
            #expect(callCount() == number + 1)
        }
        for call in all { _ = await call.value }
        #expect(queue.isIdle)
    }

    @Test("kills a worker that has not answered a call within call_timeout")
    func timeout() async throws {
        let (queue, worker) = (CallQueue.forTest(), FakeWorker(1))
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        let call = queue.start(.input(1))
        try await wait { worker.count == 1 }
        queue.expire(now: .now + .seconds(4))
        #expect(worker.killed == nil)
        queue.expire(now: .now + .seconds(6))
        #expect(worker.killed == .timeout)
        queue.ended(1)
        queue.refuse(WorkerFailure(.hsmTokenUnavailable, "no worker"))
        #expect(await call.value.kind == .hsmTokenUnavailable)
    }

    @Test("fails a call that waited too long without a worker as hsmTokenUnavailable")
    func waitedTooLong() async throws {
        let (queue, worker) = (CallQueue.forTest(window: 1), FakeWorker(1))
        let early = queue.start(.input(1))
        try await wait { !queue.isIdle }
        queue.expire(now: .now + .seconds(16))
        #expect(await early.value.kind == .hsmTokenUnavailable)
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        let calls = (1...2).map { queue.start(.input($0)) }
        try await wait { worker.count == 1 }
        try await Task.sleep(for: .milliseconds(20))
        queue.expire(now: .now + .seconds(5) - .milliseconds(1))
        queue.ended(1)
        queue.refuse(WorkerFailure(.hsmTokenUnavailable, "no worker"))
        for call in calls { #expect(await call.value.kind == .hsmTokenUnavailable) }
    }

    @Test("sends new calls to a successor at once, and closes the old worker after its last answer")
    func recycling() async throws {
        let due = Shared<[UInt64]>([])
        let queue = CallQueue.forTest(
            window: 8, recycleAfter: 2, recycleDue: { number in due.change { $0.append(number) } })
        let (old, new) = (FakeWorker(1), FakeWorker(2))
        queue.add(old.connected)
        _ = queue.serve(with: 1)
        let calls = (1...3).map { queue.start(.input($0)) }
        try await wait { old.count == 3 }
        let sent = try old.requests
        for request in sent[..<2] { #expect(queue.received(.done, for: request.identifier, from: 1)) }
        #expect(due.current == [1])
        queue.add(new.connected)
        #expect(queue.serve(with: 2))
        #expect(!old.isClosed)
        let later = queue.start(.input(4))
        try await wait { new.count == 1 }
        #expect(old.count == 3)
        #expect(queue.received(.done, for: sent[2].identifier, from: 1))
        #expect(old.isClosed)
        #expect(queue.received(.done, for: try new.requests[0].identifier, from: 2))
        for call in calls + [later] { #expect(try await call.value.get() == .done) }
    }

    @Test("rejects an answer from a worker that did not receive the call, and a second answer")
    func unaskedAnswer() async throws {
        let queue = CallQueue.forTest()
        let (first, second) = (FakeWorker(1), FakeWorker(2))
        queue.add(first.connected)
        queue.add(second.connected)
        _ = queue.serve(with: 1)
        let call = queue.start(.input(1))
        try await wait { first.count == 1 }
        let identifier = try first.requests[0].identifier
        #expect(!queue.received(.done, for: identifier + 1, from: 1))
        #expect(!queue.received(.done, for: identifier, from: 2))
        #expect(queue.received(.done, for: identifier, from: 1))
        #expect(!queue.received(.done, for: identifier, from: 1))
        #expect(try await call.value.get() == .done)
    }

    @Test("lengthens the pauses while workers end soon after their start, and does not retry a refused PIN")
    func pausesBetweenStarts() {
        var delay = RespawnDelay()
        let young = (0..<8).map { _ in delay.afterDeath(served: .seconds(1)) }
        #expect(
            young == [
                .zero, .seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(16), .seconds(30), .seconds(30),
            ])
        #expect(delay.afterDeath(served: .seconds(31)) == .zero)
        // A worker that answered calls before it ended is replaced soon, even if workers end repeatedly.
        let useful = (0..<4).map { _ in delay.afterDeath(served: .seconds(1), wasUseful: true) }
        #expect(useful == Array(repeating: RespawnDelay.useful, count: 4))
        #expect(RespawnDelay.useful < .seconds(1))
        let absent = WorkerFailure(.hsmTokenUnavailable, "absent")
        let retries = (0..<5).map { _ in delay.afterRefusal(absent) }
        #expect(retries == [.seconds(1), .seconds(2), .seconds(4), .seconds(5), .seconds(5)])
        #expect(delay.afterRefusal(WorkerFailure(.loginRefused, "PIN")) == nil)
    }
}
