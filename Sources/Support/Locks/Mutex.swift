// The one place that imports Synchronization (scripts/check-structure).
public import Synchronization

public typealias Atomic = Synchronization.Atomic

#if !THREAD_SANITIZER

    public typealias Mutex = Synchronization.Mutex

#else

    internal import Glibc

    /// Synchronization's mutex for the build of `scripts/sanitize thread`, on a mutex of pthread(7), which
    /// ThreadSanitizer observes.
    ///
    /// The standard library's mutex is a futex in a library that is not instrumented. ThreadSanitizer would report every
    /// access to a value that it protects as a race.
    ///
    /// Sendable, as is the standard library's: only one thread at a time reaches `value`, with `mutex` locked.
    // Unsafe: pthread(7) needs a mutex that never moves, and a value that is not copied needs an address too. This type
    // allocates both, never hands them out, and frees them in its deinit, which runs when no borrow is left.
    @safe
    public struct Mutex<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
        private let mutex: UnsafeMutablePointer<pthread_mutex_t>
        private let value: UnsafeMutablePointer<Value>

        public init(_ initialValue: consuming sending Value) {
            unsafe mutex = .allocate(capacity: 1)
            unsafe mutex.initialize(to: pthread_mutex_t())
            unsafe pthread_mutex_init(mutex, nil)
            unsafe value = .allocate(capacity: 1)
            unsafe value.initialize(to: initialValue)
        }

        deinit {
            unsafe value.deinitialize(count: 1)
            unsafe value.deallocate()
            unsafe pthread_mutex_destroy(mutex)
            unsafe mutex.deallocate()
        }

        public borrowing func withLock<Result: ~Copyable, Failure: Error>(
            _ body: (inout sending Value) throws(Failure) -> sending Result
        ) throws(Failure) -> sending Result {
            unsafe pthread_mutex_lock(mutex)
            defer { unsafe pthread_mutex_unlock(mutex) }
            return try unsafe body(&value.pointee)
        }
    }

#endif
