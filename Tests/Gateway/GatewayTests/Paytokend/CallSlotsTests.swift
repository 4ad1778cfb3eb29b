import TestSupport
import Testing

@testable import Gateway

@Suite("Places for calls to paytokend")
struct CallSlotsTests {
    private let slots = CallSlots(1)
    private let served = Shared<[String]>([])

    /// Waits for a free place, takes it, and frees it immediately.
    private func wait(_ client: String, until deadline: ContinuousClock.Instant = .now + .seconds(600)) async throws
        -> Task<Bool, Never>
    {
        let before = slots.waitingCount
        let task = Task { [slots, served] in
            guard await slots.take(for: client, until: deadline) else { return false }
            served.change { $0.append(client) }
            slots.leave()
            return true
        }
        try await TestSupport.wait(for: "one more that waits") { slots.waitingCount == before + 1 }
        return task
    }

    @Test("are given to clients in turn, however many calls of one wait")
    func turns() async throws {
        #expect(await slots.take(for: "many", until: .now))
        var tasks: [Task<Bool, Never>] = []
        for _ in 0..<4 { tasks.append(try await wait("many")) }
        for _ in 0..<2 { tasks.append(try await wait("few")) }
        slots.leave()
        for task in tasks { #expect(await task.value) }
        #expect(served.current == ["many", "few", "many", "few", "many", "many"])
        #expect(await slots.take(for: "many", until: .now))
    }

    @Test("are not given to a call that was cancelled or whose time is over")
    func departures() async throws {
        #expect(await slots.take(for: "a", until: .now))
        #expect(await !slots.take(for: "b", until: .now))
        let cancelled = try await wait("b")
        cancelled.cancel()
        #expect(await !cancelled.value)
        let latch = Latch(isOpen: false)
        let before = Task { [slots] in
            await latch.pass()
            return await slots.take(for: "b", until: .now + .seconds(600))
        }
        before.cancel()
        latch.open()
        #expect(await !before.value)
        #expect(slots.waitingCount == 0)
        slots.leave()
        #expect(await slots.take(for: "b", until: .now))
        #expect(served.current.isEmpty)
    }
}
