import Synchronization

/// Why a worker's socket closed, as far as this side knows.
final class WorkerEndReason: Sendable {
    private struct State {
        var reason: WorkerEvents.RestartReason? = .died
        var isClosed = false
    }

    private let state = Mutex(State())

    /// It is let go: its end is no event.
    func expect() {
        state.withLock { state in
            if state.reason == .died { state.reason = nil }
        }
    }

    func set(_ reason: WorkerEvents.RestartReason) {
        state.withLock { $0.reason = reason }
    }

    func close() {
        state.withLock { $0.isClosed = true }
    }

    /// nil when the worker was let go.
    var reason: WorkerEvents.RestartReason? { state.withLock { $0.reason } }
    var isClosed: Bool { state.withLock { $0.isClosed } }
}
