import Dispatch
import HostSystem
import Testing

/// The tasks that a request starts (`Task.onSameExecutor`), of which one pays, and one waits for the time limit.
@Suite struct `A task that a request starts` {
    @Test func `runs on its caller's executor, also after it has waited`() async {
        let queue = QueueExecutor()
        let places = await Task(executorPreference: queue) {
            var found = [queue.isCurrent]
            found += await Task.onSameExecutor {
                let first = queue.isCurrent
                await Task.detached {}.value
                return [first, queue.isCurrent]
            }.value
            return found + [queue.isCurrent]
        }.value
        #expect(places == [true, true, true, true])
    }

    @Test func `runs on the threads of the concurrency runtime if its caller does`() async {
        #expect(await Task.detached { await Task.onSameExecutor { 7 }.value }.value == 7)
    }

    @Test func `goes on when its caller is cancelled`() async {
        let caller = Task {
            while !Task.isCancelled { await Task.yield() }
            return await Task.onSameExecutor { Task.isCancelled }.value
        }
        caller.cancel()
        #expect(await caller.value == false)
    }
}

/// Runs tasks on a queue.
private final class QueueExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "tests.executor")
    private let mark = DispatchSpecificKey<Bool>()

    init() { queue.setSpecific(key: mark, value: true) }

    /// True if the caller runs on the queue.
    var isCurrent: Bool { DispatchQueue.getSpecific(key: mark) == true }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
