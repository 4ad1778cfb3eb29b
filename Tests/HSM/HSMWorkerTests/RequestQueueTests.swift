import Foundation
import Locks
import Testing

@testable import HSMWorker

@Suite struct RequestQueueTests {
    @Test("returns requests in the order of arrival, and nil after the last one")
    func order() {
        let batches = Batches([0..<3, 3..<5])
        let queue = RequestQueue(read: batches.next)
        #expect((0..<5).map { _ in queue.take()?.identifier } == [0, 1, 2, 3, 4])
        #expect(queue.take() == nil)
        #expect(queue.take() == nil)
    }

    @Test("does not read from the stream while requests wait")
    func readsOnDemand() {
        let batches = Batches([0..<3, 3..<5])
        let queue = RequestQueue(read: batches.next)
        for _ in 0..<3 { _ = queue.take() }
        #expect(batches.left == 1)
    }

    @Test("reads the next batch in one thread while another handles a request", .timeLimit(.minutes(1)))
    func readsDuringWork() async {
        let (first, second) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let batches = Batches([0..<1, 1..<2])
        let queue = RequestQueue(read: batches.next)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    await onThread {
                        // Each thread continues only when the other thread has a request too.
                        if queue.take()?.identifier == 0 {
                            second.wait()
                            first.signal()
                        } else {
                            second.signal()
                            first.wait()
                        }
                    }
                }
            }
        }
        #expect(queue.take() == nil)
    }

    @Test("gives each request to exactly one of many threads, and ends all threads", .timeLimit(.minutes(1)))
    func everyRequestOnce() async {
        let sessions = 8
        let batches = Batches((0..<2500).map { $0 * 2..<$0 * 2 + 2 })
        let queue = RequestQueue(read: batches.next)
        let taken = Taken()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<sessions {
                group.addTask {
                    await onThread { while let next = queue.take() { taken.add(next.identifier) } }
                }
            }
        }
        #expect(taken.all.sorted() == (0..<5000).map { $0 })
    }
}

/// A stream that delivers given batches of requests, one at a time.
private final class Batches: Sendable {
    private let batches: Mutex<[Range<UInt64>]>

    init(_ batches: [Range<UInt64>]) {
        self.batches = Mutex(batches)
    }

    var left: Int { batches.withLock { $0.count } }

    func next() -> [RequestQueue.Entry]? {
        batches.withLock { batches in
            guard !batches.isEmpty else { return nil }
            return batches.removeFirst().map { (identifier: $0, request: .probe) }
        }
    }
}

private final class Taken: Sendable {
    private let identifiers = Mutex<[UInt64]>([])

    func add(_ identifier: UInt64) { identifiers.withLock { $0.append(identifier) } }
    var all: [UInt64] { identifiers.withLock { $0 } }
}

/// Runs `body` in a new thread, because `body` blocks.
private func onThread(_ body: @escaping @Sendable () -> Void) async {
    await withCheckedContinuation { continuation in
        Thread {
            body()
            continuation.resume()
        }.start()
    }
}
