// Unsafe: The current task is used only within the closure. An executor that it prefers is retained by what the closure returns.

extension Task where Failure == Never {
    /// Starts a task that the caller's cancellation does not reach, on the executor that the caller's task prefers, such as its
    /// connection's event loop.
    ///
    /// `Task.init` starts a task on the threads of the concurrency runtime instead. Each step from one of the two to the other wakes
    /// a sleeping thread.
    @discardableResult
    package static func onSameExecutor(_ body: sending @escaping () async -> Success) -> Task {
        let executor = unsafe withUnsafeCurrentTask { unsafe $0?.unownedTaskExecutor?.asTaskExecutor() }
        return Task(executorPreference: executor, operation: body)
    }
}
