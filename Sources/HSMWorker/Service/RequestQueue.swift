import Foundation
import WorkerProtocol

/// Requests between the one thread that reads them and the session threads. When it is full the reader waits, and the
/// daemon's socket fills up behind it.
///
/// While enough requests wait, the reader rests, and then reads many at once: waking it for each request would cost two
/// thread switches a request, on cores that a computing library needs.
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
    /// While more requests than these wait, the reader rests.
    private let enough: Int
    private let condition = NSCondition()

    /// In seconds. The end of the input is noticed at most that much later.
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
        // One and not all: dozens of sessions would wake for each request. Only sessions wait here, because the reader is
        // the thread that puts.
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
        // Only the reader can be waiting here (the queue was full, or it rests): sessions do not wait while there are requests.
        let left = requests.count - first
        if left == capacity - 1 || left == enough && isReaderResting { condition.signal() }
        condition.unlock()
        return next
    }
}
