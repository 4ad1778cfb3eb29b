import Dispatch
import Synchronization

/// A condition that a test waited for was not met.
public struct WaitedInVain: Error, CustomStringConvertible {
    public let description: String
}

/// Checks `condition` until it holds: after 1 ms at first, then at growing intervals of up to 20 ms.
///
/// - Parameter what: the event; omitted if the condition shows it, which the error then identifies by its source
///   location.
/// - Throws: ``WaitedInVain`` past the deadline.
public func wait(
    for what: String? = nil, within seconds: Double = 180, file: String = #fileID, line: Int = #line,
    until condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + .seconds(seconds)
    var pause = Duration.milliseconds(1)
    while ContinuousClock.now < deadline {
        if try await condition() { return }
        try await Task.sleep(for: pause)
        pause = min(pause * 2, .milliseconds(20))
    }
    throw WaitedInVain(description: "waited \(seconds) s in vain for \(what ?? "the condition at \(file):\(line)")")
}

/// Blocks the threads that pass, as a disk that does not answer does, until it ends.
public final class Hang: Sendable {
    private let state = Mutex((isActive: false, held: 0))
    private let way = DispatchSemaphore(value: 0)

    public init() {}

    /// Blocks every thread that passes from now on.
    public func begin() { state.withLock { $0.isActive = true } }

    /// Lets all threads continue, and blocks none any more.
    public func end() {
        let held = state.withLock { state in
            state.isActive = false
            return state.held
        }
        for _ in 0..<held { way.signal() }
    }

    /// Blocks while the hang lasts.
    public func pass() {
        let isHeld = state.withLock { state in
            if state.isActive { state.held += 1 }
            return state.isActive
        }
        guard isHeld else { return }
        way.wait()
        state.withLock { $0.held -= 1 }
    }

    /// The number of blocked threads.
    public var held: Int { state.withLock { $0.held } }

    /// Waits until a thread is blocked.
    public func hold() async throws { try await wait(for: "somebody who is held") { self.held > 0 } }
}

/// A task in progress whose result a test awaits. If it does not end, the test fails instead of hanging too.
public final class Begun<Answer: Sendable>: Sendable {
    private let answer = Mutex<Answer?>(nil)

    public init(_ body: @escaping @Sendable () async -> Answer) {
        Task {
            let given = await body()
            answer.withLock { $0 = given }
        }
    }

    public var hasEnded: Bool { answer.withLock { $0 != nil } }

    public func value() async throws -> Answer {
        try await wait(for: "an answer") { self.hasEnded }
        guard let given = answer.withLock({ $0 }) else { throw WaitedInVain(description: "there is no answer") }
        return given
    }
}

/// Lets tasks pass while open, and makes them wait while closed.
public final class Latch: Sendable {
    private struct State {
        var isOpen: Bool
        var arrivals = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    public init(isOpen: Bool) { state = Mutex(State(isOpen: isOpen)) }

    /// The number of arrivals, including waiting ones.
    public var arrivals: Int { state.withLock { $0.arrivals } }

    /// The number of tasks that wait now.
    public var waiting: Int { state.withLock { $0.waiting.count } }

    public func close() { state.withLock { $0.isOpen = false } }

    public func open() {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            state.isOpen = true
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    public func pass() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let isOpen = state.withLock { state in
                state.arrivals += 1
                if !state.isOpen { state.waiting.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
    }
}

/// A value that several tasks of a test change.
public final class Shared<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    public init(_ value: Value) { self.value = Mutex(value) }

    public var current: Value { value.withLock { $0 } }

    public func change(_ body: @Sendable (inout Value) -> Void) { value.withLock { body(&$0) } }
}

extension Shared<Int> {
    public func increment() { change { $0 += 1 } }
}
