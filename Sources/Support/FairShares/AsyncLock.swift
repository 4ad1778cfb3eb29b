import Locks

/// A lock for asynchronous work. Callers receive it in the order of their requests, and no thread waits.
package final class AsyncLock: Sendable {
    private let state = Mutex((isHeld: false, waiting: [CheckedContinuation<Void, Never>]()))

    package init() {}

    /// Waits until the lock is free; ``release()`` must follow.
    package func acquire() async {
        await withCheckedContinuation { (caller: CheckedContinuation<Void, Never>) in
            let isMine = state.withLock { state in
                defer { state.isHeld = true }
                if state.isHeld { state.waiting.append(caller) }
                return !state.isHeld
            }
            if isMine { caller.resume() }
        }
    }

    /// Takes the lock and returns true if it is free; ``release()`` must then follow. Returns false at once if another
    /// caller has it.
    package func tryAcquire() -> Bool {
        state.withLock { state in
            defer { state.isHeld = true }
            return !state.isHeld
        }
    }

    /// Takes the lock until the lease is deallocated; nil while another caller has it.
    package func lease() -> Lease? { tryAcquire() ? Lease(self) : nil }

    /// Passes the lock to the caller that has waited longest.
    package func release() {
        state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.isHeld = false
            return nil
        }?.resume()
    }

    package final class Lease: Sendable {
        private let lock: AsyncLock

        fileprivate init(_ lock: AsyncLock) { self.lock = lock }

        deinit { lock.release() }
    }
}
