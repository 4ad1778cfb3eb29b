public import Logging

/// Collects log events, one line for each.
public struct CapturedLog: LogHandler {
    public let lines: Shared<[String]>
    public var metadata: Logger.Metadata = [:]
    public var logLevel = Logger.Level.debug

    public init(lines: Shared<[String]>) { self.lines = lines }

    public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    public func log(event: LogEvent) {
        let members = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { "\($0)=\($1)" }
        let line = ([event.message.description] + members + ["level=\(event.level)"]).joined(separator: " ")
        lines.change { $0.append(line) }
    }
}
