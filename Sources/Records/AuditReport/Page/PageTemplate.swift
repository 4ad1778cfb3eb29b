import AuditChain
import Encodings
import StrictJSON

/// A template for HTML, without logic. `scripts/report_template.py` has the same renderer, and both have the same tests
/// (`templates.json`).
///
/// A tag is in double braces. A path such as `export.file` begins in the innermost object, and never in an outer one.
///
/// - `{{path}}` is the value, escaped; `–` if there is none. `{{.}}` is an element of a list.
/// - `{{path|format}}` is the value in a ``Format``.
/// - `{{#path}}…{{/path}}` is repeated for each element of a list. In it, an object's members are the paths. `{{#path|, }}`
///   writes `, ` between the elements.
/// - `{{?path}}…{{/path}}` is written if the value is present: not missing, false or an empty list. `{{?path=text}}`
///   needs this text. `{{^path}}…{{/path}}` is the opposite.
/// - `{{!…}}` is a comment.
///
/// Blanks at the beginning of a line are not written, nor is the end of a line that has one tag other than a value.
struct PageTemplate: Sendable {
    enum Format: String, Sendable {
        /// An integer with commas between thousands.
        case grouped
        /// A time to the second, such as `2026-01-31 12:00:02`.
        case second
        /// A time's day, such as `2026-01-31`.
        case day
        /// The first 8 characters and `…`.
        case short
        /// A figure's count, with a link to the list of its records, or with its only record.
        case figure
        /// JSON in canonical form, for a script element, which `</script` in a text would end (HTML Living Standard
        /// 4.12.1.3).
        case json
    }

    private indirect enum Part: Sendable {
        case text(String)
        case value([String], Format?)
        case section(kind: Character, path: [String], equal: String?, separator: String, parts: [Part])
    }

    private let parts: [Part]

    /// Returns nil if a section is not closed, or a format does not exist.
    init?(_ text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { $0.drop { $0 == " " } }
        var source = ""
        for (index, line) in lines.enumerated() {
            let isTag = ["{{#", "{{?", "{{^", "{{/", "{{!"].contains { line.hasPrefix($0) }
            source += line
            if index < lines.count - 1, !isTag || line.firstRange(of: "}}")?.upperBound != line.endIndex {
                source += "\n"
            }
        }
        var rest = source[...]
        guard let parts = Self.parts(&rest, until: nil) else { return nil }
        self.parts = parts
    }

    private static func parts(_ rest: inout Substring, until end: String?) -> [Part]? {
        var parts: [Part] = []
        while let tag = rest.firstRange(of: "{{") {
            parts.append(.text(String(rest[..<tag.lowerBound])))
            guard let close = rest[tag.upperBound...].firstRange(of: "}}"), let kind = rest[tag.upperBound...].first
            else { return nil }
            let content = rest[tag.upperBound..<close.lowerBound]
            rest = rest[close.upperBound...]
            let words = content.split(separator: "|", maxSplits: 1, omittingEmptySubsequences: false)
            let name = words[0].dropFirst().split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            switch kind {
            case "!": break
            case "/": return String(content.dropFirst()) == end ? parts : nil
            case "#", "?", "^":
                guard let path = name.first, let inner = Self.parts(&rest, until: String(path)) else { return nil }
                parts.append(
                    .section(
                        kind: kind, path: Self.path(path), equal: name.count > 1 ? String(name[1]) : nil,
                        separator: words.count > 1 ? String(words[1]) : "", parts: inner))
            default:
                let format = words.count > 1 ? Format(rawValue: String(words[1])) : nil
                guard words.count == 1 || format != nil else { return nil }
                parts.append(.value(Self.path(words[0]), format))
            }
        }
        parts.append(.text(String(rest)))
        return end == nil ? parts : nil
    }

    private static func path(_ text: Substring) -> [String] { text.split(separator: ".").map(String.init) }

    func render(_ value: JSONValue) -> String {
        var page = ""
        Self.render(parts, value, &page)
        return page
    }

    private static func render(_ parts: [Part], _ context: JSONValue, _ page: inout String) {
        for part in parts {
            switch part {
            case .text(let text): page += text
            case .value(let path, let format): page += text(value(context, path), format)
            case .section(let kind, let path, let equal, let separator, let inner):
                let found = value(context, path)
                guard kind == "#" else {
                    if isPresent(found, equal) == (kind == "?") { render(inner, context, &page) }
                    continue
                }
                guard let found, isPresent(found, nil) else { continue }
                for (index, element) in (found.arrayValue ?? [found]).enumerated() {
                    page += index > 0 ? separator : ""
                    render(inner, element, &page)
                }
            }
        }
    }

    private static func value(_ context: JSONValue, _ path: [String]) -> JSONValue? {
        path.reduce(context as JSONValue?) { found, name in
            found?.objectValue?[name].flatMap { $0.isNull ? nil : $0 }
        }
    }

    private static func isPresent(_ value: JSONValue?, _ equal: String?) -> Bool {
        guard let value, value != .bool(false), value.arrayValue?.isEmpty != true else { return false }
        return equal.map { value.stringValue == $0 } ?? true
    }

    private static func text(_ value: JSONValue?, _ format: Format?) -> String {
        guard let value else { return "–" }
        if format == .figure { return figure(value) }
        let text =
            switch value {
            case .string(let text): text
            case .number(let number): number.text
            case .bool(let isSet): isSet ? "yes" : "no"
            case .null, .array, .object: ""
            }
        return switch format {
        case nil, .figure: escaped(text)
        case .grouped: escaped(Int(text)?.grouped ?? text)
        case .second: escaped(text.prefix(19).replacing("T", with: " "))
        case .day: escaped(String(text.prefix(10)))
        case .short: escaped(text.prefix(8) + "…")
        case .json: String(decoding: value.compact, as: UTF8.self).replacing("<", with: "\\u003c")
        }
    }

    private static func figure(_ value: JSONValue) -> String {
        let (count, record) = (text(Self.value(value, ["count"]), .grouped), Self.value(value, ["record"]))
        if let number = Self.value(value, ["number"]) { return "<a href=\"#f\(text(number, nil))\">\(count)</a>" }
        return count + (record.map { " <span class=\"place\">(\(text($0, nil)))</span>" } ?? "")
    }

    /// Escapes markup, and replaces controls, direction marks and other characters that are not visible. Otherwise one
    /// name could look like another. The list is fixed, since the Unicode tables of two programs may differ.
    static func escaped(_ text: some StringProtocol) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            case _ where scalar.value < 0x20 || scalar.value > 0x7E && invisible.contains { $0 ~= scalar.value }:
                escaped += "\u{FFFD}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    private static let invisible: [ClosedRange<UInt32>] = [
        0x7F...0x9F, 0xAD...0xAD, 0x600...0x605, 0x61C...0x61C, 0x6DD...0x6DD, 0x70F...0x70F, 0x890...0x891,
        0x8E2...0x8E2,
        0x180E...0x180E, 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x206F, 0xFEFF...0xFEFF, 0xFFF9...0xFFFB,
        0x110BD...0x110BD, 0x110CD...0x110CD, 0x13430...0x1345F, 0x1BCA0...0x1BCA3, 0x1D173...0x1D17A,
        0xE0000...0xE0FFF,
    ]
}
