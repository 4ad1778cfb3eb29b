package import Logging

/// The `log` section: the log on standard error.
package struct LogSettings: Sendable, Equatable {
    package enum Format: String, CaseIterable, Sendable {
        /// One JSON object in each line.
        case json
        case text
    }

    package var level: Logger.Level
    package var format: Format

    package init(level: Logger.Level = .info, format: Format = .json) {
        self.level = level
        self.format = format
    }
}
