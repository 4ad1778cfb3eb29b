import TestSupport
import Testing

@testable import Gateway

@Suite("Places for calls to paytokend")
struct CallPlacesTests {
    private let places = CallPlaces(1)
    private let served = Shared<[String]>([])

    /// Waits for a free place, takes it, and frees it immediately.
    private func wait(_ client: String, until deadline: ContinuousClock.Instant = .now + .seconds(600)) async throws
        -> Task<Bool, Never>
    {
        let before = places.waitingCount
        let task = Task { [places, served] in
            guard await places.take(for: client, until: deadline) else { return false }
            served.change { $0.append(client) }
            places.leave()
            return true
        }
        try await TestSupport.wait(for: "one more that waits") { places.waitingCount == before + 1 }
        return task
    }

    @Test("are given to clients in turn, however many calls of one wait")
    func turns() async throws {
        #expect(await places.take(for: "many", until: .now))
        var tasks: [Task<Bool, Never>] = []
        for _ in 0..<4 { tasks.append(try await wait("many")) }
        for _ in 0..<2 { tasks.append(try await wait("few")) }
        places.leave()
        for task in tasks { #expect(await task.value) }
        #expect(served.current == ["many", "few", "many", "few", "many", "many"])
        #expect(await places.take(for: "many", until: .now))
    }

    @Test("are not given to a call that was cancelled or whose time is over")
    func departures() async throws {
        #expect(await places.take(for: "a", until: .now))
        #expect(await !places.take(for: "b", until: .now))
        let cancelled = try await wait("b")
        cancelled.cancel()
        #expect(await !cancelled.value)
        let latch = Latch(isOpen: false)
        let before = Task { [places] in
            await latch.pass()
            return await places.take(for: "b", until: .now + .seconds(600))
        }
        before.cancel()
        latch.open()
        #expect(await !before.value)
        #expect(places.waitingCount == 0)
        places.leave()
        #expect(await places.take(for: "b", until: .now))
        #expect(served.current.isEmpty)
    }
}
