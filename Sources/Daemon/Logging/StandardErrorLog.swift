import Foundation
import Logging
import Synchronization

/// The daemon's log: one sink, format and level for all its loggers. The level can be changed while it runs.
final class StandardErrorLog: Sendable {
    private struct State {
        var level: Logger.Level
        let format: LogSettings.Format
    }

    private let sink: LogSink
    private let state: Mutex<State>

    init(_ settings: LogSettings = .init(), sink: LogSink = .init()) {
        self.sink = sink
        state = Mutex(State(level: settings.level, format: settings.format))
    }

    /// A logger whose level follows this log's, unless it is set on the logger itself.
    func logger(_ label: String) -> Logger {
        Logger(label: label) { StandardErrorLogHandler(log: self, label: $0) }
    }

    /// For every logger at once. The format stays as it was at the start: who reads the log could not know from which
    /// line on it is another.
    var level: Logger.Level {
        get { state.withLock { $0.level } }
        set { state.withLock { $0.level = newValue } }
    }

    /// Waits, at most a second, until what was logged is written.
    func flush() {
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
struct StandardErrorLogHandler: LogHandler {
    private let log: StandardErrorLog
    private let label: String
    private var ownLevel: Logger.Level?
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?

    init(log: StandardErrorLog, label: String) {
        self.log = log
        self.label = label
    }

    var logLevel: Logger.Level {
        get { ownLevel ?? log.level }
        set { ownLevel = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var merged = metadata
        if let provided = metadataProvider?.get() { merged.merge(provided) { $1 } }
        if let own = event.metadata { merged.merge(own) { $1 } }
        log.write(event, label: label, metadata: merged)
    }
}
