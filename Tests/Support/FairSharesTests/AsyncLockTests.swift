import Locks
import Testing

@testable import FairShares

@Suite("AsyncLock")
struct AsyncLockTests {
    @Test("admits one caller at a time, and eventually every caller")
    func oneAtATime() async {
        let (lock, inside) = (AsyncLock(), Inside())
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    await lock.acquire()
                    inside.enter()
                    await Task.yield()
                    inside.leave()
                    lock.release()
                }
            }
        }
        #expect(inside.most == 1 && inside.total == 50)
    }

    @Test("refuses a lease until the previous lease is deallocated or the lock is released")
    func refused() async {
        let lock = AsyncLock()
        var lease = lock.lease()
        #expect(lease != nil && lock.lease() == nil && !lock.tryAcquire())
        lease = nil
        #expect(lock.tryAcquire())
        #expect(lock.lease() == nil)
        lock.release()
        await lock.acquire()
        #expect(lock.lease() == nil)
    }

    /// Counts the lock's current holders, their maximum, and all acquisitions.
    private final class Inside: Sendable {
        private let state = Mutex((now: 0, most: 0, total: 0))

        var most: Int { state.withLock { $0.most } }
        var total: Int { state.withLock { $0.total } }

        func enter() {
            state.withLock { state in
                state.now += 1
                state.total += 1
                state.most = max(state.most, state.now)
            }
        }

        func leave() { state.withLock { $0.now -= 1 } }
    }
}
