import Locks

/// A costly result that any peer may request. One search runs at a time. All requests that are made before it ends, or
/// within a second after it began, receive its result.
package final class SharedFinding<Value: Sendable>: Sendable {
    package static var lifetime: Duration { .seconds(1) }

    private let now: @Sendable () -> ContinuousClock.Instant
    private let find: @Sendable () async -> Value
    /// The last search and its start time, which is nil while it runs.
    private let last = Mutex<(search: Task<Value, Never>, began: ContinuousClock.Instant?)?>(nil)

    package init(
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }, _ find: @escaping @Sendable () async -> Value
    ) {
        self.now = now
        self.find = find
    }

    package var value: Value {
        get async {
            let now = now()
            let search = last.withLock { last in
                if let last, last.began.map({ $0.duration(to: now) < Self.lifetime }) ?? true { return last.search }
                let search = Task {
                    let value = await self.find()
                    self.last.withLock { $0?.began = now }
                    return value
                }
                last = (search, nil)
                return search
            }
            return await search.value
        }
    }
}
