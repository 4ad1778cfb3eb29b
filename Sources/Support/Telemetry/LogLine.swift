import Encodings
package import Foundation
package import Logging
import StrictJSON

/// One log event as one line of bounded length, whatever its values hold.
package enum LogLine {
    /// Of one value, in Unicode scalars; what is longer is cut.
    package static let longestValue = 2_048

    package static func encode(
        _ event: LogEvent, label: String, metadata: Logger.Metadata, format: LogSettings.Format, at time: Date
    ) -> [UInt8] {
        switch format {
        case .json: json(event, label: label, metadata: metadata, at: time)
        case .text: text(event, label: label, metadata: metadata, at: time)
        }
    }

    /// `{"time":"…","level":"info","logger":"…","message":"…",` and the metadata by its own names `}`.
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
        // Nested names are the program's own, so a text is enough for them.
        case .dictionary(let members):
            .string(cut(members.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }.joined(separator: " ")))
        }
    }

    /// `2026-01-31T12:00:00.000Z info logger: message name=value name="value with spaces"`
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

    /// Control, format and separator characters as escapes: no value can end a line, or turn a terminal's text around.
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
