internal import StrictJSON

/// A configuration value in a record: at most 256 printable Unicode scalars.
public struct ConfigurationValue: Sendable, Hashable {
    public static let maximumLength = 256

    public let text: String

    /// Accepts any text and sanitises it as ``AuditText`` does: masks runs of digits, replaces unprintable scalars, and
    /// truncates.
    public init(_ text: String) {
        self.text = PrintableText.clean(text, limit: Self.maximumLength)
    }

    public init(_ number: Int) {
        text = String(number)
    }

    /// Takes the complete digest in hexadecimal. It is not sanitised, since a run of 12 digits in it is not an account
    /// number.
    public init(_ digest: AuditDigest) {
        text = digest.hex
    }

    private init(joined text: String) {
        self.text = text
    }

    /// Joins the elements of a list with `, `. A list that is too long for one value is continued in further values,
    /// without splitting an element. An empty list is one empty value.
    public static func list(_ elements: [ConfigurationValue]) -> [ConfigurationValue] {
        var texts = [elements.first?.text ?? ""]
        for element in elements.dropFirst() {
            let longer = texts[texts.count - 1] + ", " + element.text
            if longer.unicodeScalars.count <= maximumLength {
                texts[texts.count - 1] = longer
            } else {
                texts.append(element.text)
            }
        }
        return texts.map(ConfigurationValue.init(joined:))
    }
}

/// The settings of the configuration in force, for the audit record. Each has a flat name, such as `access.1.name`, and
/// its value as text, so that a reader can compare the settings of two records one by one.
public struct ConfigurationValues: Sendable, Equatable {
    struct Member: Sendable, Equatable {
        let name: String
        let value: ConfigurationValue
    }

    /// The values by unique name.
    private var values: [String: ConfigurationValue] = [:]
    /// The number of values that a later value with the same sanitised name replaced.
    private var replaced = 0

    public init() {}

    /// - Parameter name: words separated by dots, such as `access.1.name`; sanitised as ``AuditText`` is.
    public mutating func set(_ name: String, _ value: ConfigurationValue) {
        let name = AuditText(name).text
        if values.updateValue(value, forKey: name) != nil { replaced += 1 }
    }

    /// Sets a list. Elements that do not fit into one value continue under the same name with `.2`, `.3` and so on
    /// appended.
    public mutating func set(_ name: String, list elements: [ConfigurationValue]) {
        for (place, value) in ConfigurationValue.list(elements).enumerated() {
            set(place == 0 ? name : "\(name).\(place + 1)", value)
        }
    }

    /// The value with this name; nil if there is none.
    public subscript(name: String) -> String? { values[name]?.text }

    /// The number of values, not counting those that were replaced.
    public var count: Int { values.count }

    /// A setting that differs between two configurations. The value is nil where the setting is not set.
    public struct Change: Sendable, Equatable {
        public let name: String
        public let before: String?
        public let after: String?
    }

    /// Returns the settings that differ from `old`, sorted by the bytes of their names.
    public func changes(from old: ConfigurationValues) -> [Change] {
        Set(values.keys).union(old.values.keys)
            .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            .map { Change(name: $0, before: old[$0], after: self[$0]) }
            .filter { $0.before != $0.after }
    }

    /// Returns the events that contain these values, in the order in which they must be recorded; at least one.
    public func events() -> [AuditEvent] {
        parts().map(AuditEvent.configurationValues)
    }

    /// Returns the values in parts, sorted by the bytes of their names. Each part is filled before the next one begins.
    func parts() -> [ConfigurationValuesPart] {
        let sorted = values.map { Member(name: $0.key, value: $0.value) }
            .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        var contents: [[Member]] = [[]]
        var bytes = 0
        for member in sorted {
            let size = member.byteCount
            if bytes + size > ConfigurationValuesPart.maximumBytes {
                contents.append([])
                bytes = 0
            }
            contents[contents.count - 1].append(member)
            bytes += size
        }
        let kept = contents.prefix(ConfigurationValuesPart.maximumParts)
        let omitted = contents.dropFirst(kept.count).reduce(replaced) { $0 + $1.count }
        return kept.enumerated().map { place, members in
            ConfigurationValuesPart(
                part: place + 1, parts: kept.count, omitted: place + 1 == kept.count ? omitted : 0, members: members)
        }
    }
}

/// The values that one record contains; ``ConfigurationValues/events()`` makes them.
public struct ConfigurationValuesPart: Sendable, Equatable {
    /// The maximum number of records for one configuration, enough for about a thousand access rules. Values that do
    /// not fit are omitted, and the last part contains their number.
    public static let maximumParts = 32
    /// The limit for the members of `values`, in bytes. The daemon's own records have no caller, so the line stays
    /// within 8 KiB; syslog daemons truncate longer lines unless configured otherwise. With the longest caller and
    /// names, the line is still within ``AuditLine/maximumBytes``.
    static let maximumBytes = 7_680

    /// The number of this part, from 1.
    public let part: Int
    public let parts: Int
    /// The number of values that are in no part. It is set in the last part only, and 0 in the others.
    public let omitted: Int
    let members: [ConfigurationValues.Member]

    func write(into writer: inout JSONWriter) {
        writer.member("part", part)
        writer.member("parts", parts)
        if omitted > 0 { writer.member("omitted", omitted) }
        writer.member("values") { writer in
            for member in members { writer.member(member.name, member.value.text) }
        }
    }
}

extension ConfigurationValues.Member {
    /// The size of the value in a record's line, including the comma before it.
    var byteCount: Int {
        var writer = JSONWriter(capacity: 128)
        writer.member(name, value.text)
        return writer.bytes.count + 1
    }
}
