/// A readers-writer lock: any number of readers run concurrently, but none while a writer runs. Waiting writers have
/// priority, so that readers cannot starve them. A thread must not take a lock that it already has. Sendable because
/// `condition` guards its variables.
final class ReadersWriterLock: @unchecked Sendable {
    // The following three variables are guarded by `condition`.
    private var readers = 0
    private var writers = 0
    private var waitingWriters = 0
    private let condition = Condition()

    /// Runs `body` as a reader, concurrently with other readers.
    func reading<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        condition.lock()
        while writers + waitingWriters > 0 { condition.wait() }
        readers += 1
        condition.unlock()
        defer {
            condition.lock()
            readers -= 1
            condition.broadcast()
            condition.unlock()
        }
        return try body()
    }

    /// Runs `body` as a writer, once no reader and no other writer runs.
    ///
    /// - Parameter limit: The time after which `body` runs although others still do, since they may hang; nil to wait
    ///   without limit. Even then no further reader begins before `body` has returned.
    func writing<Result, Failure: Error>(
        after limit: Duration? = nil, _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let end = limit.map { ContinuousClock.now + $0 }
        condition.lock()
        waitingWriters += 1
        while readers + writers > 0 {
            guard let end else {
                condition.wait()
                continue
            }
            guard ContinuousClock.now < end else { break }
            condition.unlock()
            BlockingThread.sleep(0.001)
            condition.lock()
        }
        waitingWriters -= 1
        writers += 1
        condition.unlock()
        defer {
            condition.lock()
            writers -= 1
            condition.broadcast()
            condition.unlock()
        }
        return try body()
    }
}
