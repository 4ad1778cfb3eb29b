import Glibc

/// A mutex with a condition variable, pthread_cond_init(3): what Foundation calls NSCondition.
@safe
final class Condition: @unchecked Sendable {
    // At one address for as long as this object lives: waiting threads are known by it.
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

    /// Unlocks, waits for a signal, and locks again. May return without one: called in a loop that looks at what is waited for.
    func wait() {
        unsafe pthread_cond_wait(condition, mutex)
    }

    /// Wakes one of those that wait.
    func signal() {
        unsafe pthread_cond_signal(condition)
    }

    /// Wakes all that wait.
    func broadcast() {
        unsafe pthread_cond_broadcast(condition)
    }
}
