import Dispatch
import Foundation
import Glibc
package import Logging
import Synchronization

/// A program's log: one sink, format and level for all its loggers. The level can be changed while it runs.
package final class StandardErrorLog: Sendable {
    private struct State {
        var level: Logger.Level
        let format: LogSettings.Format
    }

    private let sink: LogSink
    private let state: Mutex<State>

    package init(_ settings: LogSettings = .init(), sink: LogSink = .init()) {
        self.sink = sink
        state = Mutex(State(level: settings.level, format: settings.format))
    }

    /// A logger whose level follows this log's, unless it is set on the logger itself.
    package func logger(_ label: String) -> Logger {
        Logger(label: label) { StandardErrorLogHandler(log: self, label: $0) }
    }

    /// For every logger at once. The format cannot be changed: a program that reads the log could not know from which line
    /// on it is another.
    package var level: Logger.Level {
        get { state.withLock { $0.level } }
        set { state.withLock { $0.level = newValue } }
    }

    /// Waits, at most a second, until what was logged is written.
    package func flush() {
        sink.flush()
    }

    fileprivate func write(_ event: LogEvent, label: String, metadata: Logger.Metadata) {
        let format = state.withLock { $0.format }
        let line = LogLine.encode(event, label: label, metadata: metadata, format: format, at: Date())
        guard let dropped = sink.write(line), dropped > 0 else { return }
        let notice = LogEvent(
            level: .warning, message: "log lines were dropped because nobody read them", metadata: nil,
            source: nil, file: #fileID, function: #function, line: #line)
        sink.write(
            LogLine.encode(
                notice, label: label, metadata: ["lines": "\(dropped)"], format: format, at: Date()))
    }
}

/// swift-log's side of ``StandardErrorLog``: a value, with metadata and perhaps a level of its own.
package struct StandardErrorLogHandler: LogHandler {
    private let log: StandardErrorLog
    private let label: String
    private var ownLevel: Logger.Level?
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?

    package init(log: StandardErrorLog, label: String) {
        self.log = log
        self.label = label
    }

    package var logLevel: Logger.Level {
        get { ownLevel ?? log.level }
        set { ownLevel = newValue }
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var merged = metadata
        if let provided = metadataProvider?.get() { merged.merge(provided) { $1 } }
        if merged.isEmpty {
            merged = event.metadata ?? [:]
        } else if let own = event.metadata {
            merged.merge(own) { $1 }
        }
        log.write(event, label: label, metadata: merged)
    }
}

/// Writes lines to a descriptor on a thread of its own: whoever logs never waits, even when the reader of standard error
/// has stopped. What does not fit the queue is dropped and counted.
///
/// Lines that come within some milliseconds leave together, as many as a pipe takes in one piece: another program that
/// writes to the same pipe does not get in between.
package final class LogSink: Sendable {
    private struct Backlog {
        /// Not handed to write(2) yet, in pieces that are written at once.
        var pieces: [[UInt8]] = []
        /// Of the pieces, and of the one that is being written.
        var bytes = 0
        var isWriting = false
        var dropped: UInt64 = 0
    }

    /// PIPE_BUF of Linux (pipe(7)).
    private static let pieceBytes = 4096
    /// How long the first line waits for others: waking a thread for each would cost more than making the line.
    private static let gathering = DispatchTimeInterval.milliseconds(5)

    /// A duplicate of its own: lines are written later, and by then whoever gave the descriptor may have closed it, and its
    /// number may be another file's. Negative where there was no room for one; then nothing is written.
    private let descriptor: CInt
    private let maximumBacklogBytes: Int
    private let queue = DispatchQueue(label: "paytokend.log")
    private let backlog = Mutex(Backlog())

    /// - Parameter descriptor: stays the caller's; it is not closed.
    package init(descriptor: CInt = STDERR_FILENO, maximumBacklogBytes: Int = 1024 * 1024) {
        self.descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
        self.maximumBacklogBytes = maximumBacklogBytes
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Queues a line, which ends in LF.
    /// - Returns: how many lines were dropped since the last one that was taken; nil when this one is dropped too.
    @discardableResult
    package func write(_ line: [UInt8]) -> UInt64? {
        let (dropped, begins): (UInt64?, Bool) = backlog.withLock { backlog in
            guard backlog.bytes + line.count <= maximumBacklogBytes else {
                backlog.dropped += 1
                return (nil, false)
            }
            backlog.bytes += line.count
            let last = backlog.pieces.count - 1
            if last >= 0, backlog.pieces[last].count + line.count <= Self.pieceBytes {
                backlog.pieces[last] += line
            } else {
                backlog.pieces.append(line)
            }
            defer {
                backlog.dropped = 0
                backlog.isWriting = true
            }
            return (backlog.dropped, !backlog.isWriting)
        }
        if begins { queue.asyncAfter(deadline: .now() + Self.gathering) { self.writePieces() } }
        return dropped
    }

    private func writePieces() {
        var written = 0
        while true {
            let pieces = backlog.withLock { backlog in
                backlog.bytes -= written
                defer { backlog.pieces = [] }
                if backlog.pieces.isEmpty { backlog.isWriting = false }
                return backlog.pieces
            }
            guard !pieces.isEmpty else { return }
            for piece in pieces { writeAll(piece) }
            written = pieces.reduce(0) { $0 + $1.count }
        }
    }

    /// Waits until everything queued so far is written, but not longer than `milliseconds`. For the program's end.
    package func flush(milliseconds: Int = 1_000) {
        let done = DispatchSemaphore(value: 0)
        queue.async {
            self.writePieces()
            done.signal()
        }
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
