import TestSupport
import Testing
import WorkerProtocol

@testable import WorkerSupervision

/// Fair shares of an HSM token. The queue takes one call of each caller in turn, so a caller's flood does not delay
/// other callers by the whole flood.
@Suite struct FairSharesTests {
    private static let window = 3

    private static func queue(waiting: Int = 1000) -> CallQueue {
        CallQueue.forTest(window: window, waiting: waiting, callTimeout: .seconds(60), recycleAfter: 10_000)
    }

    private static func input(_ caller: UInt8, _ number: Int) -> WorkerRequest {
        .decrypt(
            Decryption(
                publicKeyHash: [caller], scheme: .ecV1, keyMaterial: [], otherInfo: [],
                ciphertext: [UInt8(number >> 8), UInt8(number & 255)]))
    }

    private func submit(
        _ number: Int, of caller: String?, for client: String? = nil, _ mark: UInt8, to queue: CallQueue
    ) -> Task<CallResult, Never> {
        let requester = Requester(caller: caller, client: client)
        return Task { await queue.submit(Self.input(mark, number), terms: CallTerms(requester: requester)) }
    }

    private static func mark(_ request: WorkerRequest) -> UInt8? {
        if case .decrypt(let decryption) = request { decryption.publicKeyHash.first } else { nil }
    }

    @Test("serves an idle caller after the window and one call of each caller, for any number of waiting calls")
    func idleCallerWaitsOneRound() async throws {
        let (queue, worker) = (Self.queue(), FakeWorker(1))
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        var calls = (0..<300).map { submit($0, of: "flood", 1, to: queue) }
        try await wait { queue.load == 300 }
        // Calls without a caller, such as administration and audit checkpoints, have a separate share.
        calls += (0..<20).map { submit($0, of: nil, 2, to: queue) }
        try await wait { queue.load == 320 }
        let before = worker.count
        calls.append(submit(0, of: "shop", 3, to: queue))
        try await wait { queue.load == 321 }
        for answered in 0... {
            let sent = try worker.requests
            if sent.contains(where: { Self.mark($0.request) == 3 }) { break }
            #expect(queue.received(.done, for: sent[answered].identifier, from: 1))
        }
        let flood = try worker.requests[before...].count { Self.mark($0.request) == 1 }
        // The calls that the worker already has come first, and then one call of each caller.
        #expect(before == Self.window)
        #expect(flood <= 3, "\(flood) calls of the flood came first")
        queue.ended(1)
        queue.refuse(WorkerFailure(.hsmTokenUnavailable, "gone"))
        for call in calls { _ = await call.value }
    }

    @Test("alternates between two callers with many calls, and keeps the order of each caller's calls")
    func alternatesBetweenCallers() async throws {
        let (queue, worker) = (Self.queue(), FakeWorker(1))
        var calls: [Task<CallResult, Never>] = []
        // All calls of caller a are queued before the first call of caller b.
        for (mark, caller, count) in [(UInt8(1), "a", 20), (2, "b", 10)] {
            for number in 0..<count {
                calls.append(submit(number, of: caller, mark, to: queue))
                try await wait { queue.waitingCount == calls.count }
            }
        }
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        for answered in 0..<30 {
            #expect(queue.received(.done, for: try worker.requests[answered].identifier, from: 1))
        }
        let sent = try worker.requests.map(\.request)
        let alternating = (0..<10).flatMap { [Self.input(1, $0), Self.input(2, $0)] }
        let expected = alternating + (10..<20).map { Self.input(1, $0) }
        #expect(sent == expected)
        for call in calls { #expect(try await call.value.get() == .done) }
    }

    @Test("divides a caller's turns among its clients, and gives it no additional turns for invented clients")
    func dividedAmongClients() async throws {
        let (queue, worker) = (Self.queue(), FakeWorker(1))
        var calls: [Task<CallResult, Never>] = []
        func add(_ count: Int, of caller: String, for client: (Int) -> String?, _ mark: UInt8) async throws {
            for number in 0..<count {
                calls.append(submit(number, of: caller, for: client(number), mark, to: queue))
                try await wait { queue.waitingCount == calls.count }
            }
        }
        try await add(5, of: "gateway", for: { _ in "many" }, 1)
        try await add(1, of: "gateway", for: { _ in "few" }, 2)
        try await add(70, of: "gateway", for: { "invented \($0)" }, 3)
        try await add(3, of: "shop", for: { _ in nil }, 4)
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        for answered in 0..<6 {
            #expect(queue.received(.done, for: try worker.requests[answered].identifier, from: 1))
        }
        #expect(try worker.requests.prefix(6).map { Self.mark($0.request) } == [1, 4, 2, 4, 3, 4])
        queue.ended(1)
        queue.refuse(WorkerFailure(.hsmTokenUnavailable, "gone"))
        for call in calls { _ = await call.value }
    }

    @Test("refuses calls beyond a caller's share of the queue as overloaded, and keeps room for other callers")
    func overloadedAlone() async throws {
        let queue = Self.queue(waiting: 64)
        let refused = Shared(0)
        let flood = (0..<100).map { number in
            Task {
                let result = await queue.submit(
                    Self.input(1, number), terms: CallTerms(requester: Requester(caller: "flood")))
                if case .failure(let failure) = result, failure.kind == .overloaded { refused.change { $0 += 1 } }
                return result
            }
        }
        // The queue has room for 64 calls. The flood may fill half of it, so 68 of the flood's 100 calls are refused.
        try await wait { refused.current == 68 }
        #expect(queue.waitingCount == 32)
        var calls: [Task<CallResult, Never>] = []
        for number in 0..<5 {
            calls.append(submit(0, of: "shop \(number)", 2, to: queue))
            try await wait { queue.waitingCount == 33 + number }
        }
        calls.append(submit(0, of: nil, 3, to: queue))
        try await wait { queue.waitingCount == 38 }
        queue.refuse(WorkerFailure(.hsmTokenUnavailable, "gone"))
        for call in flood + calls { _ = await call.value }
        #expect(refused.current == 68)
        #expect(queue.isIdle)
    }

    @Test("serves a repeated call before all other calls")
    func repetitionFirst() async throws {
        let (queue, worker) = (Self.queue(), FakeWorker(1))
        let flood = (0..<10).map { submit($0, of: "flood", 1, to: queue) }
        try await wait { queue.waitingCount == 10 }
        let repetition = Task {
            await queue.submit(
                Self.input(4, 0), terms: CallTerms(requester: Requester(caller: "flood"), isRepetition: true))
        }
        try await wait { queue.waitingCount == 11 }
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        #expect(try worker.requests.first.map { Self.mark($0.request) } == 4)
        queue.ended(1)
        queue.refuse(WorkerFailure(.hsmTokenUnavailable, "gone"))
        for call in flood + [repetition] { _ = await call.value }
    }

    @Test("never sends a call to a worker if the caller left while the call waited")
    func departedCaller() async throws {
        let (queue, worker) = (Self.queue(), FakeWorker(1))
        let hasLeft = Shared(false)
        let left = Requester(caller: "left", hasLeft: { hasLeft.current })
        let abandoned = Task { await queue.submit(Self.input(1, 0), terms: CallTerms(requester: left)) }
        try await wait { queue.waitingCount == 1 }
        let call = submit(0, of: "shop", 2, to: queue)
        try await wait { queue.waitingCount == 2 }
        hasLeft.change { $0 = true }
        queue.add(worker.connected)
        _ = queue.serve(with: 1)
        #expect(await abandoned.value == .failure(CallFailure(failure: PendingCall.abandonedByCaller, stage: .queue)))
        #expect(try worker.requests.map(\.request) == [Self.input(2, 0)])
        #expect(queue.received(.done, for: try worker.requests[0].identifier, from: 1))
        #expect(try await call.value.get() == .done)
    }
}
