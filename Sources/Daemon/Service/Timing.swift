import Foundation

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
