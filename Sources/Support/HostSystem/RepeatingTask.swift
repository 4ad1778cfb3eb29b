extension Task where Success == Void, Failure == Never {
    /// Runs the work immediately and again after each pause, until the task is cancelled.
    package static func repeating(
        every pause: Duration, _ work: @escaping @Sendable () async -> Void
    ) -> Task<Void, Never> {
        Task<Void, Never> {
            while !Task<Never, Never>.isCancelled {
                await work()
                try? await Task<Never, Never>.sleep(for: pause)
            }
        }
    }
}
