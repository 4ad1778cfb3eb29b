import Synchronization

/// A lock for asynchronous work: whoever comes first goes first, and nobody's thread waits.
final class AsyncLock: Sendable {
    private let state = Mutex((isHeld: false, waiting: [CheckedContinuation<Void, Never>]()))

    /// Waits until the lock is free; ``release()`` must follow.
    func acquire() async {
        await withCheckedContinuation { (caller: CheckedContinuation<Void, Never>) in
            let isMine = state.withLock { state in
                defer { state.isHeld = true }
                if state.isHeld { state.waiting.append(caller) }
                return !state.isHeld
            }
            if isMine { caller.resume() }
        }
    }

    /// Hands the lock to the one that has waited longest.
    func release() {
        state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.isHeld = false
            return nil
        }?.resume()
    }
}
