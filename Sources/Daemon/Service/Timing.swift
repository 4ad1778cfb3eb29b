import Foundation
import Synchronization

/// Where the daemon's one notion of the present comes from, so that tests can stand at any time.
struct WallClock: Sendable {
    let now: @Sendable () -> Date

    static let system = WallClock { Date() }
}

extension Task where Success == Void, Failure == Never {
    /// Does the work at once and again after each pause, until the task is cancelled.
    static func repeating(every pause: Duration, _ work: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        Task<Void, Never> {
            while !Task<Never, Never>.isCancelled {
                await work()
                try? await Task<Never, Never>.sleep(for: pause)
            }
        }
    }
}

extension Task where Failure == Never {
    /// The task's value where it comes within `limit`; nil otherwise, and then the task goes on.
    ///
    /// For what may never end, such as a call to a disk or to an HSM that hangs.
    func value(within limit: Duration) async -> Success? {
        await withCheckedContinuation { (waiting: CheckedContinuation<Success?, Never>) in
            let first = FirstValue(waiting)
            let timer = Task<Void, Never> {
                try? await Task<Never, Never>.sleep(for: limit)
                first.resume(nil)
            }
            Task<Void, Never> {
                first.resume(await value)
                timer.cancel()
            }
        }
    }
}

/// Answers the waiting caller with the first of several values.
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
