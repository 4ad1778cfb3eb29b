import Synchronization

/// At most so many short-lived programs at once: a table of tests would else start hundreds on two cores, and each
/// would time the others out.
final class ProgramLimit: Sendable {
    static let shared = ProgramLimit(12)

    private struct State {
        var free: Int
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    init(_ count: Int) { state = Mutex(State(free: count)) }

    func run<Value>(_ body: () async throws -> Value) async throws -> Value {
        await withCheckedContinuation { continuation in
            let ready = state.withLock { state -> Bool in
                if state.free > 0 {
                    state.free -= 1
                    return true
                }
                state.waiting.append(continuation)
                return false
            }
            if ready { continuation.resume() }
        }
        defer {
            let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
                if !state.waiting.isEmpty { return state.waiting.removeFirst() }
                state.free += 1
                return nil
            }
            next?.resume()
        }
        return try await body()
    }
}
