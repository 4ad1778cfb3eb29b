import Locks

extension Task where Failure == Never {
    /// The task's value if it arrives within `limit`. Otherwise nil, and the task continues.
    ///
    /// This is for tasks that may never end, such as a call to a disk or an HSM that hangs.
    package func value(within limit: Duration) async -> Success? {
        await withCheckedContinuation { (waiting: CheckedContinuation<Success?, Never>) in
            let first = FirstValue(waiting)
            let timer = Task<Void, Never>.onSameExecutor {
                try? await Task<Never, Never>.sleep(for: limit)
                first.resume(nil)
            }
            Task<Void, Never>.onSameExecutor {
                first.resume(await value)
                timer.cancel()
            }
        }
    }
}

/// Passes the first of several values to the waiting caller.
private final class FirstValue<Value: Sendable>: Sendable {
    private let waiting: Mutex<CheckedContinuation<Value?, Never>?>

    init(_ waiting: CheckedContinuation<Value?, Never>) {
        self.waiting = Mutex(waiting)
    }

    func resume(_ value: Value?) {
        waiting.withLock { waiting in
            defer { waiting = nil }
            return waiting
        }?.resume(returning: value)
    }
}
