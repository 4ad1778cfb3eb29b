import Foundation
import Glibc
import HostSystem

/// The standard error of one worker process, to which PKCS#11 libraries write too. Some write a line for each call, so
/// only some lines of each minute are kept, and only the beginning of a long one.
enum WorkerOutput {
    struct Line: Sendable, Equatable {
        let text: String
        /// The number of lines before this one that were not kept.
        let dropped: Int
    }

    static let (maximumBytes, maximumLines, period) = (512, 20, Duration.seconds(60))

    /// Reads on a thread of its own until every process has closed the other end.
    /// - Parameter take: receives each line that is kept.
    static func read(from descriptor: OwnedDescriptor, _ take: @escaping @Sendable (Line) -> Void) {
        let thread = Thread {
            var lines = BoundedLines()
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

    /// Cuts bytes into lines, and drops what exceeds the limits.
    struct BoundedLines {
        private var begun: [UInt8] = []
        private var dropped = 0
        /// The number of lines that were kept since `since`.
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

        /// Ends the line that has begun.
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
