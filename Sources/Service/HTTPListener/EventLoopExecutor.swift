import NIOCore

/// Runs tasks on an event loop's own thread.
///
/// A payment's request is read, decided and answered by one thread then: without this, a task that waits for the HSM and
/// for the ledger goes from the connection's event loop to one of the concurrency runtime's threads and back, and every one
/// of these steps wakes a thread that sleeps.
final class EventLoopExecutor: TaskExecutor {
    private let eventLoop: any EventLoop

    init(_ eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        eventLoop.execute { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
