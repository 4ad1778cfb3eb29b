import Foundation
import WorkerProtocol

/// Requests between the one thread that reads them and the session threads. When it is full the reader waits, and the
/// daemon's socket fills up behind it.
final class RequestQueue: @unchecked Sendable {
    struct Entry: Sendable {
        let identifier: UInt64
        let request: WorkerRequest
        let arrival: ContinuousClock.Instant
    }

    // Guarded by `condition`.
    private var requests: [Entry] = []
    private var first = 0
    private let capacity: Int
    private let condition = NSCondition()

    init(capacity: Int) {
        self.capacity = capacity
    }

    func put(_ identifier: UInt64, _ request: WorkerRequest) {
        let arrival = ContinuousClock.now
        condition.lock()
        while requests.count - first >= capacity { condition.wait() }
        requests.append(Entry(identifier: identifier, request: request, arrival: arrival))
        // One, not all: dozens of sessions would wake for each request. The reader is not among those that wait: it
        // waits when the queue is full, they when it is empty.
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
        // The reader waits only when the queue was full.
        if requests.count - first == capacity - 1 { condition.signal() }
        condition.unlock()
        return next
    }
}
