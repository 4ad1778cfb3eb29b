import Dispatch
import Locks

/// The error that a condition was not met before the deadline.
public struct ConditionTimeout: Error, CustomStringConvertible {
    public let description: String
}

/// Checks `condition` repeatedly until it holds. The pauses grow from 1 ms to 20 ms.
///
/// - Parameter what: the awaited event, for the error's text. If nil, the error names the source location instead.
/// - Throws: ``ConditionTimeout`` if the condition does not hold before the deadline.
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
    throw ConditionTimeout(description: "waited \(seconds) s in vain for \(what ?? "the condition at \(file):\(line)")")
}

/// Blocks threads between ``begin()`` and ``end()``, as a disk that does not answer would.
public final class Hang: Sendable {
    private let state = Mutex((isActive: false, held: 0))
    private let way = DispatchSemaphore(value: 0)

    public init() {}

    /// Starts to block every thread that calls ``pass()``.
    public func begin() { state.withLock { $0.isActive = true } }

    /// Releases all blocked threads, and stops blocking.
    public func end() {
        let held = state.withLock { state in
            state.isActive = false
            return state.held
        }
        for _ in 0..<held { way.signal() }
    }

    /// Blocks the calling thread between ``begin()`` and ``end()``.
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

    /// Waits until at least one thread is blocked.
    public func waitUntilBlocking() async throws { try await wait(for: "a blocked thread") { self.held > 0 } }
}

/// A running task whose result a test awaits. If the task never ends, the test fails at a deadline instead of hanging.
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
        guard let given = answer.withLock({ $0 }) else { throw ConditionTimeout(description: "there is no answer") }
        return given
    }
}

/// A latch that lets tasks pass while it is open, and makes them wait while it is closed.
public final class Latch: Sendable {
    private struct State {
        var isOpen: Bool
        var arrivals = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    public init(isOpen: Bool) { state = Mutex(State(isOpen: isOpen)) }

    /// The number of calls of ``pass()`` so far, including those that wait.
    public var arrivals: Int { state.withLock { $0.arrivals } }

    /// The number of tasks that are waiting.
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
