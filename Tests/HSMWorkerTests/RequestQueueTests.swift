import Foundation
import Synchronization
import Testing

@testable import HSMWorker

@Suite struct RequestQueueTests {
    private func filled(_ count: Int, sessions: Int) -> RequestQueue {
        let queue = RequestQueue(capacity: 64, sessions: sessions)
        for number in 0..<count { queue.put(UInt64(number), .probe) }
        return queue
    }

    @Test("requests are taken in the order in which they came")
    func order() {
        let queue = filled(5, sessions: 2)
        #expect((0..<5).map { _ in queue.take().identifier } == [0, 1, 2, 3, 4])
    }

    @Test(
        "a reader that rests goes on though no session takes anything: the end of its input is noticed",
        .timeLimit(.minutes(1)))
    func restEnds() async {
        let queue = filled(20, sessions: 2)
        await onThread { queue.awaitDemand() }
        #expect(queue.take().identifier == 0)
    }

    @Test("each request is taken by one of many threads while the reader rests between", .timeLimit(.minutes(1)))
    func everyRequestOnce() async {
        let (count, sessions) = (5000, 8)
        let queue = RequestQueue(capacity: 32, sessions: sessions)
        let taken = Taken()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<sessions {
                group.addTask {
                    await onThread {
                        while true {
                            let identifier = queue.take().identifier
                            if identifier == .max { return }
                            taken.add(identifier)
                        }
                    }
                }
            }
            group.addTask {
                await onThread {
                    for number in 0..<count {
                        queue.awaitDemand()
                        queue.put(UInt64(number), .probe)
                    }
                    for _ in 0..<sessions { queue.put(.max, .probe) }
                }
            }
        }
        #expect(taken.all.sorted() == (0..<UInt64(count)).map { $0 })
    }
}

private final class Taken: Sendable {
    private let identifiers = Mutex<[UInt64]>([])

    func add(_ identifier: UInt64) { identifiers.withLock { $0.append(identifier) } }
    var all: [UInt64] { identifiers.withLock { $0 } }
}

/// Blocks a thread of its own.
private func onThread(_ body: @escaping @Sendable () -> Void) async {
    await withCheckedContinuation { continuation in
        Thread {
            body()
            continuation.resume()
        }.start()
    }
}
