import Logging

/// `log`: to standard error.
struct LogSettings: Sendable, Equatable {
    enum Format: String, CaseIterable, Sendable {
        /// One object a line.
        case json
        case text
    }

    var level: Logger.Level = .info
    var format = Format.json
}

extension LogSettings {
    static let keys = ["level", "format"]

    init(_ section: ConfigurationSection) {
        self.init()
        level = section.choice("level", default: level)
        format = section.choice("format", default: format)
    }
}
