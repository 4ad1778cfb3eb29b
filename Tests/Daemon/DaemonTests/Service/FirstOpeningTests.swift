import TestSupport
import Testing

@testable import Daemon

/// The wait of requests while the daemon opens its HSM tokens for the first time.
@Suite("First opening")
struct FirstOpeningTests {
    private let opening = FirstOpening()
    private let isServed = Shared(false)
    private let isOver = Shared(false)

    private func request() -> Begun<Void> {
        Begun { [opening, isServed] in await opening.pass { isServed.current } }
    }

    @Test("delays a request only until its key can be used, even if other HSM tokens are still being opened")
    func servedOnceListed() async throws {
        let task = opening.start(longest: .seconds(600)) { [isOver] in isOver.current }
        let first = request()
        let other = Begun { [opening] in await opening.pass { false } }
        try await wait(for: "two that wait") { opening.waitingCount == 2 }
        #expect(!first.hasEnded)
        isServed.change { $0 = true }
        try await first.value()
        // A request does not wait if an open HSM token already shows its key.
        try await request().value()
        #expect(!other.hasEnded && opening.waitingCount == 1)
        isOver.change { $0 = true }
        try await other.value()
        await task.value
    }

    @Test("waits for no HSM token that is away, and never after the first opening")
    func afterFirstOpening() async throws {
        isOver.change { $0 = true }
        await opening.start(longest: .seconds(600)) { [isOver] in isOver.current }.value
        try await request().value()
        try await Begun { await FirstOpening(isOver: true).pass { false } }.value()
    }

    @Test("waits for a hanging HSM token no longer than the limit, and lets all requests go when the daemon stops")
    func waitLimit() async throws {
        let first = request()
        try await wait(for: "one that waits") { opening.waitingCount == 1 }
        await opening.start(longest: .milliseconds(20)) { false }.value
        try await first.value()
        let other = FirstOpening()
        let waiting = Begun { await other.pass { false } }
        try await wait(for: "one that waits") { other.waitingCount == 1 }
        let task = other.start(longest: .seconds(600)) { false }
        task.cancel()
        try await waiting.value()
    }

    @Test(
        "lets two hundred waiting requests through, and evaluates their conditions without holding its lock"
    )
    func manyRequests() async throws {
        let task = opening.start(longest: .seconds(600)) { [isOver] in isOver.current }
        let requests = (0..<200).map { _ in
            Begun { [opening, isServed] in await opening.pass { opening.waitingCount >= 0 && isServed.current } }
        }
        try await wait(for: "all that wait") { opening.waitingCount == 200 }
        isServed.change { $0 = true }
        for request in requests { try await request.value() }
        #expect(opening.waitingCount == 0)
        isOver.change { $0 = true }
        await task.value
    }
}
