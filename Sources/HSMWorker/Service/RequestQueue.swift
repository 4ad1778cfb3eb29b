import Foundation
import WorkerProtocol

/// Requests between the one thread that reads them and the session threads. When it is full the reader waits, and the
/// daemon's socket fills up behind it.
///
/// While the sessions have enough to do the reader rests, and then reads many requests at once: to wake for each would
/// take a core from a library that computes, twice for every request.
final class RequestQueue: @unchecked Sendable {
    struct Entry: Sendable {
        let identifier: UInt64
        let request: WorkerRequest
    }

    // Guarded by `condition`.
    private var requests: [Entry] = []
    private var first = 0
    private var isReaderResting = false
    private let capacity: Int
    /// So many requests waiting are enough to do.
    private let enough: Int
    private let condition = NSCondition()

    /// The end of the input is noticed that much later, in seconds.
    private static let longestRest = 0.02

    init(capacity: Int, sessions: Int) {
        self.capacity = capacity
        enough = sessions
    }

    /// Returns when the sessions will soon have nothing more to do, or after a short while.
    func awaitDemand() {
        condition.lock()
        if requests.count - first > enough {
            isReaderResting = true
            _ = condition.wait(until: Date(timeIntervalSinceNow: Self.longestRest))
            isReaderResting = false
        }
        condition.unlock()
    }

    func put(_ identifier: UInt64, _ request: WorkerRequest) {
        condition.lock()
        while requests.count - first >= capacity { condition.wait() }
        requests.append(Entry(identifier: identifier, request: request))
        // One, not all: dozens of sessions would wake for each request. The reader, which puts, is not among those that
        // wait.
        condition.signal()
        condition.unlock()
    }

    func take() -> Entry {
        condition.lock()
        while requests.count == first { condition.wait() }
        let next = requests[first]
        first += 1
        if first == requests.count {
            requests.removeAll(keepingCapacity: true)
            first = 0
        } else if first > capacity {
            requests.removeFirst(first)
            first = 0
        }
        // The reader waits when the queue is full, or rests; no session waits at the same time, since there are requests.
        let left = requests.count - first
        if left == capacity - 1 || left == enough && isReaderResting { condition.signal() }
        condition.unlock()
        return next
    }
}
