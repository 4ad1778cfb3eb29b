import Dispatch
import Glibc
import Synchronization

/// Writes lines to a descriptor, one write(2) each, on a thread of its own: whoever logs never waits, even when the
/// reader of standard error has stopped. What does not fit the queue is dropped and counted.
final class LogSink: Sendable {
    private struct Backlog {
        var bytes = 0
        var dropped: UInt64 = 0
    }

    private let descriptor: CInt
    private let maximumBacklogBytes: Int
    private let queue = DispatchQueue(label: "paytokend.log")
    private let backlog = Mutex(Backlog())

    /// - Parameter descriptor: stays the caller's; it is not closed.
    init(descriptor: CInt = STDERR_FILENO, maximumBacklogBytes: Int = 1024 * 1024) {
        self.descriptor = descriptor
        self.maximumBacklogBytes = maximumBacklogBytes
    }

    /// Queues a line, which ends in LF.
    /// - Returns: how many lines were dropped since the last one that was taken; nil when this one is dropped too.
    @discardableResult
    func write(_ line: [UInt8]) -> UInt64? {
        let dropped: UInt64? = backlog.withLock { backlog in
            guard backlog.bytes + line.count <= maximumBacklogBytes else {
                backlog.dropped += 1
                return nil
            }
            backlog.bytes += line.count
            defer { backlog.dropped = 0 }
            return backlog.dropped
        }
        guard let dropped else { return nil }
        queue.async { [self] in
            writeAll(line)
            backlog.withLock { $0.bytes -= line.count }
        }
        return dropped
    }

    /// Waits until everything queued so far is written, but not longer than `milliseconds`. For the program's end.
    func flush(milliseconds: Int = 1_000) {
        let done = DispatchSemaphore(value: 0)
        queue.async { done.signal() }
        _ = done.wait(timeout: .now() + .milliseconds(milliseconds))
    }

    private func writeAll(_ line: [UInt8]) {
        var rest = line[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else if errno == EAGAIN {
                // Somebody who shares standard error made it non-blocking.
                var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = unsafe Glibc.poll(&poll, 1, 1_000)
            } else if errno != EINTR {
                return
            }
        }
    }
}
