import Synchronization

/// One after the other, in the order in which they came.
final class AsyncLock: Sendable {
    private let state = Mutex((isTaken: false, waiting: [CheckedContinuation<Void, Never>]()))

    /// Waits for the turn; ``give()`` must follow.
    func acquire() async {
        await withCheckedContinuation { (turn: CheckedContinuation<Void, Never>) in
            let isMine = state.withLock { state in
                defer { state.isTaken = true }
                if state.isTaken { state.waiting.append(turn) }
                return !state.isTaken
            }
            if isMine { turn.resume() }
        }
    }

    func release() {
        state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.isTaken = false
            return nil
        }?.resume()
    }
}
