import Glibc
import Locks
import WorkerProtocol

// Unsafe: read(2) and write(2) receive lengths within their buffers. `Condition` allocates what must not move, and
// frees it in its deinit.

/// The requests that come over the stream, in order. One thread at a time reads them; ``RequestQueue`` ensures that.
final class RequestInput: Sendable {
    private struct State {
        var decoder = FrameDecoder(maximumLength: FieldBound.requestFrame)
        /// True once the stream has ended or broken the protocol.
        var hasEnded = false
        var isViolated = false
    }

    /// POLLRDHUP of poll(2). Glibc's headers define it only for C programs with _GNU_SOURCE.
    private static let otherEndHasClosed: Int16 = 0x2000

    private let descriptor: Int32
    private let stream: FrameStream
    private let state = Mutex(State())

    init(_ descriptor: Int32, stream: FrameStream) {
        self.descriptor = descriptor
        self.stream = stream
    }

    /// Blocks until the first request has arrived, and returns it; nil if the stream ends first.
    func first() -> RequestQueue.Entry? {
        state.withLock { state in
            while !state.hasEnded {
                if let entry = next(&state) { return entry }
                readMore(&state)
            }
            return nil
        }
    }

    /// Blocks until at least one further request has arrived, and returns all complete requests that have arrived by
    /// then. nil at the end of the stream.
    func batch() -> [RequestQueue.Entry]? {
        state.withLock { state in
            while !state.hasEnded {
                var entries: [RequestQueue.Entry] = []
                while let entry = next(&state) {
                    guard case .open = entry.request else {
                        entries.append(entry)
                        continue
                    }
                    reject("The HSM token is open already.", entry.identifier, &state)
                }
                if !entries.isEmpty { return entries }
                readMore(&state)
            }
            return nil
        }
    }

    /// Answers the request with `protocolViolation` and this message, and ends the stream.
    func reject(_ message: String, _ identifier: UInt64) {
        state.withLock { reject(message, identifier, &$0) }
    }

    /// Blocks until the other end has closed the stream, or this end has shut it down. While all sessions are in
    /// library calls, no thread reads the stream. So the end of the stream would go unnoticed without this method.
    func waitUntilClosed() {
        var watched = pollfd(fd: descriptor, events: Self.otherEndHasClosed, revents: 0)
        while unsafe poll(&watched, 1, -1) < 0, errno == EINTR {}
    }

    /// Returns true if the stream ended between two frames and every frame was valid. Reads the remaining data, so call
    /// it last.
    func wasWellFormed() -> Bool {
        state.withLock { state in
            while !state.hasEnded {
                while next(&state) != nil {}
                readMore(&state)
            }
            return !state.isViolated && state.decoder.isAtBoundary
        }
    }

    private func next(_ state: inout State) -> RequestQueue.Entry? {
        do throws(FrameError) {
            guard !state.hasEnded, let frame = try state.decoder.next() else { return nil }
            return (frame.identifier, try WorkerRequest(frame))
        } catch {
            violate(&state)
            return nil
        }
    }

    private func readMore(_ state: inout State) {
        guard !state.hasEnded else { return }
        if let piece = stream.read() {
            state.decoder.append(piece)
        } else {
            state.hasEnded = true
        }
    }

    private func reject(_ message: String, _ identifier: UInt64, _ state: inout State) {
        stream.send(.failed(WorkerFailure(.protocolViolation, message)), for: identifier)
        violate(&state)
    }

    private func violate(_ state: inout State) {
        state.hasEnded = true
        state.isViolated = true
        // Makes `waitUntilClosed` return.
        _ = shutdown(descriptor, Int32(SHUT_RDWR))
    }
}

/// The worker's end of the socket pair. One thread at a time reads from it; all threads may send answers.
final class FrameStream: Sendable {
    private struct Outbox {
        var bytes: [UInt8] = []
        var isWriting = false
    }

    private let descriptor: Int32
    private let outbox = Mutex(Outbox())

    init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// Blocks until more bytes have arrived, and returns up to 64 KiB of them; nil at the end of the stream or on an
    /// error.
    func read() -> [UInt8]? {
        BlockingDescriptor.read(atMost: 64 * 1024, from: descriptor)
    }

    /// Sends an answer. One thread at a time writes to the stream. If another thread is writing, the answer is queued,
    /// and that thread sends it.
    func send(_ answer: WorkerAnswer, for identifier: UInt64) {
        let frame: [UInt8]
        do throws(FrameError) {
            frame = try answer.encoded(identifier: identifier)
        } catch {
            // Only a listing of keys can be too large.
            let failure = WorkerFailure(.notSupported, "The answer does not fit into a frame: too many keys.")
            guard let small = try? WorkerAnswer.failed(failure).encoded(identifier: identifier) else { return }
            frame = small
        }
        let writes = outbox.withLock { outbox in
            outbox.bytes.append(contentsOf: frame)
            defer { outbox.isWriting = true }
            return !outbox.isWriting
        }
        guard writes else { return }
        // A failed write is ignored: the reading thread detects a broken stream.
        while let batch = nextBatch() { BlockingDescriptor.write(batch, to: descriptor) }
    }

    private func nextBatch() -> [UInt8]? {
        outbox.withLock { outbox in
            guard !outbox.bytes.isEmpty else {
                outbox.isWriting = false
                return nil
            }
            defer { outbox.bytes = [] }
            return outbox.bytes
        }
    }
}

/// Blocking reads and writes on descriptors, which FoundationEssentials lacks. Foundation has them, but together with
/// ICU it would be most of the code in the process that has the PIN.
package enum BlockingDescriptor {
    /// Makes one read(2), and returns the bytes; nil at the end or on an error.
    static func read(atMost count: Int, from descriptor: Int32) -> [UInt8]? {
        let piece = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
            var got: Int
            repeat {
                got = unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            } while got < 0 && errno == EINTR
            initializedCount = max(got, 0)
        }
        return piece.isEmpty ? nil : piece
    }

    /// - Returns: false if the write failed.
    @discardableResult
    package static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        unsafe bytes.withUnsafeBytes { buffer in
            var written = 0
            while written < buffer.count {
                let count = unsafe Glibc.write(
                    descriptor, buffer.baseAddress.unsafelyUnwrapped + written, buffer.count - written)
                if count < 0 && errno == EINTR { continue }
                guard count > 0 else { return false }
                written += count
            }
            return true
        }
    }
}

/// The queue from which the session threads take requests.
///
/// No thread is reserved for reading. An idle session thread reads the stream itself while the others sleep, and
/// handles the first request that arrives. A handover to another thread would cost two thread switches for each
/// request. A library that computes in software needs that processor time. While all sessions work, no thread reads,
/// and the daemon's socket fills up. Sendable because `condition` guards its variables, and one thread at a time reads.
final class RequestQueue: @unchecked Sendable {
    typealias Entry = (identifier: UInt64, request: WorkerRequest)

    // The following five variables are guarded by `condition`.
    private var requests: [Entry] = []
    private var first = 0
    private var isReading = false
    private var waiting = 0
    private var hasEnded = false
    private let condition = Condition()
    private let read: () -> [Entry]?

    /// - Parameter read: Blocks until further requests arrive; returns nil if no more will come. Only one thread at a
    ///   time calls it.
    init(read: @escaping () -> [Entry]?) {
        self.read = read
    }

    /// Blocks until there is a request, and removes it from the queue; nil if no more requests will come.
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

/// A mutex with a condition variable, pthread_cond_init(3). Foundation calls it NSCondition. Sendable because pthread(7)
/// makes both for use by several threads.
@safe
final class Condition: @unchecked Sendable {
    // Both are allocated, so that their addresses never change: the system finds waiting threads by the address.
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
