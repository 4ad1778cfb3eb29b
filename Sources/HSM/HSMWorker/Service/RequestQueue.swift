import Glibc
import WorkerProtocol

/// Requests on their way to the session threads.
///
/// No thread is reserved for reading. An idle session thread reads the stream itself while the others sleep, and
/// handles the first request that arrives. Handing it to another thread would cost two thread switches a request, on
/// cores that a library which computes in software needs. While all sessions work, no thread reads, and the daemon's
/// socket fills up.
final class RequestQueue: @unchecked Sendable {
    typealias Entry = (identifier: UInt64, request: WorkerRequest)

    // Guarded by `condition`.
    private var requests: [Entry] = []
    private var first = 0
    private var isReading = false
    private var waiting = 0
    private var hasEnded = false
    private let condition = Condition()
    private let read: () -> [Entry]?

    /// - Parameter read: Blocks for further requests; nil when none will come. One thread at a time calls it.
    init(read: @escaping () -> [Entry]?) {
        self.read = read
    }

    /// Blocks for the next request; nil when none will come.
    func take() -> Entry? {
        condition.lock()
        defer { condition.unlock() }
        while true {
            if first < requests.count { return pop() }
            if hasEnded { return nil }
            if isReading {
                waiting += 1
                condition.wait()
                waiting -= 1
            } else {
                readMore()
            }
        }
    }

    private func readMore() {
        isReading = true
        condition.unlock()
        let more = read()
        condition.lock()
        isReading = false
        if let more {
            requests += more
        } else {
            hasEnded = true
            condition.broadcast()
        }
    }

    private func pop() -> Entry {
        let next = requests[first]
        first += 1
        if first == requests.count {
            requests.removeAll(keepingCapacity: true)
            first = 0
        }
        // Lets another thread take the next request, or read the stream.
        if waiting > 0, first < requests.count || !isReading { condition.signal() }
        return next
    }
}

/// A mutex with a condition variable, pthread_cond_init(3). Foundation calls it NSCondition.
@safe
final class Condition: @unchecked Sendable {
    // Kept at one address for as long as this object lives: the system identifies waiting threads by it.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    init() {
        unsafe mutex.initialize(to: pthread_mutex_t())
        unsafe condition.initialize(to: pthread_cond_t())
        unsafe pthread_mutex_init(mutex, nil)
        unsafe pthread_cond_init(condition, nil)
    }

    deinit {
        unsafe pthread_cond_destroy(condition)
        unsafe pthread_mutex_destroy(mutex)
        unsafe condition.deallocate()
        unsafe mutex.deallocate()
    }

    func lock() {
        unsafe pthread_mutex_lock(mutex)
    }

    func unlock() {
        unsafe pthread_mutex_unlock(mutex)
    }

    /// Unlocks, waits for a signal, and locks again. May return without a signal, so the caller checks its condition
    /// in a loop.
    func wait() {
        unsafe pthread_cond_wait(condition, mutex)
    }

    /// Wakes one waiting thread.
    func signal() {
        unsafe pthread_cond_signal(condition)
    }

    /// Wakes all waiting threads.
    func broadcast() {
        unsafe pthread_cond_broadcast(condition)
    }
}
