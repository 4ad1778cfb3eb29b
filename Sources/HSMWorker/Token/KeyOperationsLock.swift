import Foundation

/// What changes the token's keys is done alone: an import looks first and creates then. What only reads and tests them
/// goes on beside others of its kind, each in a session of its own.
///
/// A condition and not a Mutex, because several may hold it at once.
final class KeyOperationsLock: @unchecked Sendable {
    // Guarded by `condition`.
    private var readers = 0
    private var isHeldAlone = false
    private var waiting = 0
    private let condition = NSCondition()

    /// One at a time, and nobody reads meanwhile.
    func alone<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        condition.lock()
        waiting += 1
        while isHeldAlone || readers > 0 { condition.wait() }
        waiting -= 1
        isHeldAlone = true
        condition.unlock()
        defer {
            condition.lock()
            isHeldAlone = false
            condition.broadcast()
            condition.unlock()
        }
        return try body()
    }

    /// With other readers. Whoever waits to be alone comes first, so that readers cannot keep it out for ever.
    func reading<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        condition.lock()
        while isHeldAlone || waiting > 0 { condition.wait() }
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
}
