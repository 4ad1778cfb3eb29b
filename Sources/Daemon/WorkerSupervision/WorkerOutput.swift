import Foundation
import Glibc
import HostSystem

// Unsafe: read(2) receives the buffer's own length, and only the bytes that it counted are used.

/// The lines that a worker process and its PKCS#11 library write to standard error. Some libraries write a line for each
/// call, so at most ``maximumLines`` are kept in each ``period``, and of each line the first ``maximumBytes``.
enum WorkerOutput {
    struct Line: Sendable, Equatable {
        let text: String
        /// The number of lines that were dropped between the last kept line and this one.
        let dropped: Int
    }

    static let (maximumBytes, maximumLines, period) = (512, 20, Duration.seconds(60))

    /// Starts a thread that reads lines until all processes have closed the other end of the pipe.
    /// - Parameter take: receives each line that is kept, on that thread.
    static func read(from descriptor: OwnedDescriptor, _ take: @escaping @Sendable (Line) -> Void) {
        let thread = Thread {
            var lines = KeptLines()
            var buffer = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = unsafe Glibc.read(descriptor.number, &buffer, buffer.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { break }
                for line in lines.add(buffer.prefix(count), at: .now) { take(line) }
            }
            if let last = lines.end(at: .now) { take(last) }
        }
        thread.name = "worker-output"
        thread.stackSize = 128 * 1024
        thread.start()
    }

    /// Divides bytes into lines, and drops lines and bytes that exceed the limits.
    struct KeptLines {
        private var begun: [UInt8] = []
        private var dropped = 0
        /// The number of lines that were kept since the beginning of the current period, ``since``.
        private var kept = 0
        private var since: ContinuousClock.Instant?

        mutating func add(_ bytes: some Sequence<UInt8>, at now: ContinuousClock.Instant) -> [Line] {
            var lines: [Line] = []
            for byte in bytes {
                if byte == UInt8(ascii: "\n") {
                    if let line = end(at: now) { lines.append(line) }
                } else if begun.count < WorkerOutput.maximumBytes {
                    begun.append(byte)
                }
            }
            return lines
        }

        /// Ends the current line. Returns it; nil if the line is empty or dropped.
        mutating func end(at now: ContinuousClock.Instant) -> Line? {
            guard !begun.isEmpty else { return nil }
            defer { begun.removeAll(keepingCapacity: true) }
            if since.map({ now - $0 >= WorkerOutput.period }) ?? true { (since, kept) = (now, 0) }
            guard kept < WorkerOutput.maximumLines else {
                dropped += 1
                return nil
            }
            kept += 1
            defer { dropped = 0 }
            return Line(text: String(decoding: begun, as: UTF8.self), dropped: dropped)
        }
    }
}
