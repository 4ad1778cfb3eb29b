import FairShares
import Locks

/// Limits the number of concurrent calls to paytokend. Free slots go to the waiting clients in turn. A client with many
/// waiting calls therefore delays another client's next call by only one call.
final class CallSlots: Sendable {
    private struct Waiting {
        let number: UInt64
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        var free: Int
        var waiting = FairQueue<String?, Waiting>()
        var next: UInt64 = 0

        mutating func takeFree() -> Bool {
            guard free > 0 else { return false }
            free -= 1
            return true
        }
    }

    private let state: Mutex<State>

    init(_ count: Int) { state = Mutex(State(free: count)) }

    /// Waits for a slot until `deadline`, or until the task is cancelled.
    ///
    /// - Parameter client: the client for which the call is made; nil for the gateway's own calls, which together count
    ///   as one client.
    /// - Returns: false if no slot became free in time; otherwise the caller must free its slot with ``leave()``.
    func take(for client: String?, until deadline: ContinuousClock.Instant) async -> Bool {
        let number: UInt64? = state.withLock { state in
            if state.takeFree() { return nil }
            state.next += 1
            return state.next
        }
        guard let number else { return true }
        var alarm: Task<Void, any Error>?
        let hasSlot = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isFree = state.withLock { state in
                    if state.takeFree() { return true }
                    state.waiting.append(Waiting(number: number, continuation: continuation), of: client)
                    return false
                }
                if isFree { return continuation.resume(returning: true) }
                // If the task was cancelled before this call was added to `waiting`, the cancellation handler had no
                // effect. The wait therefore ends here.
                if Task.isCancelled { return giveUp(number) }
                alarm = Task { [weak self] in
                    try await Task.sleep(until: deadline, clock: .continuous)
                    self?.giveUp(number)
                }
            }
        } onCancel: {
            giveUp(number)
        }
        alarm?.cancel()
        return hasSlot
    }

    private func giveUp(_ number: UInt64) {
        let late = state.withLock { $0.waiting.removeAll { $0.number == number } }
        late.first?.continuation.resume(returning: false)
    }

    /// Frees the caller's slot, or passes it to a waiting call of the next client in turn.
    func leave() {
        let next = state.withLock { state in
            let next = state.waiting.popFirst()
            if next == nil { state.free += 1 }
            return next
        }
        next?.continuation.resume(returning: true)
    }

    /// The number of waiting calls.
    var waitingCount: Int { state.withLock { $0.waiting.count } }
}
