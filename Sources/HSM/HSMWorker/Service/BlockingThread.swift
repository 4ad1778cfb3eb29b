import CLinux
import Glibc

// Unsafe: The new thread alone takes the retained body; if there is no thread, it is released here. pthread(7)
// copies the attributes.

/// A dedicated thread for calls that block until an HSM token answers. libdispatch has only a few threads, so blocking
/// calls there would delay all other work.
enum BlockingThread {
    private final class Body: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) {
            self.run = run
        }
    }

    /// The size of the thread's stack, which is enough for PKCS#11 libraries.
    private static let stackByteCount = 1024 * 1024

    /// Starts a thread that ends when `body` returns. Ends the process when the system has no more threads; the daemon
    /// then starts another worker.
    /// - Parameter name: The name for ps and debuggers, at most 15 bytes.
    static func start(_ name: String, _ body: @escaping @Sendable () -> Void) {
        let context = unsafe Unmanaged.passRetained(
            Body {
                // Names the new thread, since the function names the thread that calls it. Only in the first thread
                // does it name the process too.
                unsafe paytokend_set_process_name(name)
                body()
            })
        var attributes = pthread_attr_t()
        var thread = pthread_t()
        unsafe pthread_attr_init(&attributes)
        unsafe pthread_attr_setstacksize(&attributes, stackByteCount)
        unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        let status = unsafe pthread_create(
            &thread, &attributes,
            { context in
                unsafe Unmanaged<Body>.fromOpaque(context.unsafelyUnwrapped).takeRetainedValue().run()
                return nil
            }, context.toOpaque())
        unsafe pthread_attr_destroy(&attributes)
        precondition(status == 0, "the system has no more threads")
    }

    /// Blocks the calling thread for this number of seconds.
    static func sleep(_ seconds: Double) {
        usleep(useconds_t(max(0, seconds) * 1_000_000))
    }
}
