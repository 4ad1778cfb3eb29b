package import Telemetry

extension LogSettings {
    package static let keys = ["level", "format"]

    package init(_ section: ConfigurationSection) {
        self.init()
        level = section.choice("level", default: level)
        format = section.choice("format", default: format)
    }
}
