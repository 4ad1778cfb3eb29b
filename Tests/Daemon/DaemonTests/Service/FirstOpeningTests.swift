import TestSupport
import Testing

@testable import Daemon

/// Who waits while the HSM tokens are opened for the first time, and for how long.
@Suite("First opening")
struct FirstOpeningTests {
    private let opening = FirstOpening()
    private let isServed = Shared(false)
    private let isOver = Shared(false)

    private func request() -> Begun<Void> {
        Begun { [opening, isServed] in await opening.pass { isServed.current } }
    }

    @Test("a request waits until its key is there, though others are still being opened")
    func served() async throws {
        let task = opening.start(longest: .seconds(600)) { [isOver] in isOver.current }
        let first = request()
        let other = Begun { [opening] in await opening.pass { false } }
        try await wait(for: "two that wait") { opening.waitingCount == 2 }
        #expect(!first.hasEnded)
        isServed.change { $0 = true }
        try await first.value()
        // One that finds its key there does not wait at all.
        try await request().value()
        #expect(!other.hasEnded && opening.waitingCount == 1)
        isOver.change { $0 = true }
        try await other.value()
        await task.value
    }

    @Test("nobody waits for a token that is away, nor after the first opening")
    func over() async throws {
        isOver.change { $0 = true }
        await opening.start(longest: .seconds(600)) { [isOver] in isOver.current }.value
        try await request().value()
        try await Begun { await FirstOpening(isOver: true).pass { false } }.value()
    }

    @Test("a token that hangs is waited for no longer than the limit, and a stopping daemon lets all go")
    func bounded() async throws {
        let first = request()
        try await wait(for: "one that waits") { opening.waitingCount == 1 }
        await opening.start(longest: .milliseconds(20)) { false }.value
        try await first.value()
        let other = FirstOpening()
        let held = Begun { await other.pass { false } }
        try await wait(for: "one that waits") { other.waitingCount == 1 }
        let task = other.start(longest: .seconds(600)) { false }
        task.cancel()
        try await held.value()
    }

    @Test("two hundred that wait are all let through, and are asked without the lock, which what they ask may take")
    func asked() async throws {
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
