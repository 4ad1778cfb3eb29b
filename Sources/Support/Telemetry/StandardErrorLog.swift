import Dispatch
import Encodings
package import Foundation
import Glibc
import Locks
package import Logging
import StrictJSON

// Unsafe: write(2) and poll(2) use their buffers only until they return, and receive the buffers' lengths.

/// A program's log: one sink, format and level for all its loggers. The level can be changed at run time.
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

    /// A logger with this log's level, unless the logger sets a different one.
    package func logger(_ label: String) -> Logger {
        Logger(label: label) { StandardErrorLogHandler(log: self, label: $0) }
    }

    /// The level of all loggers. The format cannot be changed, since a program that reads the log could not know where
    /// it changes.
    package var level: Logger.Level {
        get { state.withLock { $0.level } }
        set { state.withLock { $0.level = newValue } }
    }

    /// Waits, at most a second, until the logged lines are written.
    package func flush() {
        sink.flush()
    }

    fileprivate func write(_ event: LogEvent, label: String, metadata: Logger.Metadata) {
        let format = state.withLock { $0.format }
        let line = LogLine.encode(event, label: label, metadata: metadata, format: format, at: Date())
        sink.write(line) { dropped in
            let notice = LogEvent(
                level: .warning, message: "log lines were dropped because standard error was not read", metadata: nil,
                source: nil, file: #fileID, function: #function, line: #line)
            return LogLine.encode(
                notice, label: label, metadata: ["lines": "\(dropped)"], format: format, at: Date())
        }
    }
}

/// swift-log's part of ``StandardErrorLog``: a value type with metadata and, if set, its own level.
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

/// Writes lines to a descriptor on its own thread, so that logging never blocks, even if the reader of standard error
/// has stopped reading. Lines that do not fit into the queue are dropped and counted.
///
/// Lines that arrive within a few milliseconds are written together, but no more than a pipe accepts atomically.
/// Otherwise lines of other programs on the same pipe could be mixed in.
package final class LogSink: Sendable {
    private struct Backlog {
        /// The pieces not yet passed to write(2), each of which is written in one call.
        var pieces: [[UInt8]] = []
        /// The total size in bytes of the queued pieces and of the piece that is being written.
        var bytes = 0
        var isWriting = false
        var dropped: UInt64 = 0

        mutating func append(_ line: [UInt8]) {
            bytes += line.count
            let last = pieces.count - 1
            if last >= 0, pieces[last].count + line.count <= LogSink.pieceBytes {
                pieces[last] += line
            } else {
                pieces.append(line)
            }
        }
    }

    /// PIPE_BUF on Linux (pipe(7)).
    private static let pieceBytes = 4096
    /// The time for which the first line waits for others: waking a thread for each line would cost more than
    /// formatting the line.
    private static let gathering = DispatchTimeInterval.milliseconds(5)

    /// A duplicate of the given descriptor. Lines are written later, when the caller may have closed its descriptor and
    /// the number may belong to another file. Negative if no descriptor was available; nothing is then written.
    private let descriptor: CInt
    private let maximumBacklogBytes: Int
    private let queue = DispatchQueue(label: "paytokend.log")
    private let backlog = Mutex(Backlog())

    /// - Parameter descriptor: it remains the caller's and is not closed.
    package init(descriptor: CInt = STDERR_FILENO, maximumBacklogBytes: Int = 1024 * 1024) {
        self.descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
        self.maximumBacklogBytes = maximumBacklogBytes
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Queues a line, which ends in LF, together with the count of lines dropped since the last queued one. If both do
    /// not fit, this line is dropped too, so that the count is not lost.
    ///
    /// - Parameter account: returns a line with the number of dropped lines.
    package func write(_ line: [UInt8], account: (_ dropped: UInt64) -> [UInt8]) {
        let begins = backlog.withLock { backlog in
            var bytes = backlog.bytes + line.count
            var notice: [UInt8] = []
            if backlog.dropped > 0, bytes <= maximumBacklogBytes {
                notice = account(backlog.dropped)
                bytes += notice.count
            }
            guard bytes <= maximumBacklogBytes else {
                backlog.dropped += 1
                return false
            }
            backlog.append(line)
            if !notice.isEmpty { backlog.append(notice) }
            defer {
                backlog.dropped = 0
                backlog.isWriting = true
            }
            return !backlog.isWriting
        }
        if begins { queue.asyncAfter(deadline: .now() + Self.gathering) { self.writePieces() } }
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

    /// Waits until all queued lines are written, at most `milliseconds`. Used at the end of the program.
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
                // Another program that shares standard error made it non-blocking.
                var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = unsafe Glibc.poll(&poll, 1, 1_000)
            } else if errno != EINTR {
                return
            }
        }
    }
}

/// Formats any log event as one line of limited length.
package enum LogLine {
    /// The longest value, in Unicode scalars; a longer one is truncated.
    package static let longestValue = 2_048

    package static func encode(
        _ event: LogEvent, label: String, metadata: Logger.Metadata, format: LogSettings.Format, at time: Date
    ) -> [UInt8] {
        switch format {
        case .json: json(event, label: label, metadata: metadata, at: time)
        case .text: text(event, label: label, metadata: metadata, at: time)
        }
    }

    /// Formats an event as `{"time":"…","level":"info","logger":"…","message":"…",`, followed by the metadata under
    /// their own names and `}`.
    private static func json(
        _ event: LogEvent, label: String, metadata: Logger.Metadata, at time: Date
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.beginObject()
        writer.member("time", timestamp(time))
        writer.member("level", event.level.rawValue)
        writer.member("logger", label)
        writer.member("message", cut(event.message.description))
        for (name, value) in metadata.sorted(by: { $0.key < $1.key }) {
            writer.member(Self.ownMembers.contains(name) ? "\(name)_" : cut(name))
            writer.value(jsonValue(value))
        }
        if let error = event.error {
            writer.member("error")
            writer.string(cut("\(error)"))
        }
        writer.endObject()
        return writer.bytes + [UInt8(ascii: "\n")]
    }

    private static let ownMembers: Set = ["time", "level", "logger", "message", "error"]

    private static func jsonValue(_ value: Logger.MetadataValue) -> JSONValue {
        switch value {
        case .string(let text): .string(cut(text))
        case .stringConvertible(let value): .string(cut(value.description))
        case .array(let elements): .array(elements.map(jsonValue))
        // Nested names come from the program, so their plain text is sufficient.
        case .dictionary(let members):
            .string(cut(members.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }.joined(separator: " ")))
        }
    }

    /// Formats an event as `2026-01-31T12:00:00.000Z info logger: message name=value name="value with spaces"`.
    private static func text(
        _ event: LogEvent, label: String, metadata: Logger.Metadata, at time: Date
    ) -> [UInt8] {
        var line = "\(timestamp(time)) \(event.level.rawValue) \(label): \(printable(cut(event.message.description)))"
        for (name, value) in metadata.sorted(by: { $0.key < $1.key }) {
            line += " \(printable(cut(name)))=\(quoted(cut(value.description)))"
        }
        if let error = event.error { line += " error=\(quoted(cut("\(error)")))" }
        return Array(line.utf8) + [UInt8(ascii: "\n")]
    }

    private static func timestamp(_ time: Date) -> String {
        RFC3339.string(millisecondsSince1970: Int((time.timeIntervalSince1970 * 1000).rounded()))
    }

    private static func cut(_ text: String) -> String {
        guard text.utf8.count > longestValue, text.unicodeScalars.count > longestValue else { return text }
        return String(String.UnicodeScalarView(text.unicodeScalars.prefix(longestValue))) + "…"
    }

    /// Quotes and escapes a value unless it is one plain word.
    private static func quoted(_ text: String) -> String {
        let isWord = !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x3D }
        guard !isWord else { return text }
        let escaped = text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        return "\"\(printable(escaped))\""
    }

    /// Escapes control, format and separator characters, so that no value can end a line or reverse the text direction
    /// of a terminal.
    private static func printable(_ text: String) -> String {
        if text.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned:
                result += "\\u{\(String(scalar.value, radix: 16))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
