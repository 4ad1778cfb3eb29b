package import Encodings
package import HostSystem

extension ConfigurationSection {
    /// A whole decimal number.
    package func integer(_ name: String, in range: ClosedRange<Int>, default standard: Int) -> Int {
        guard let text = written(name) else { return standard }
        guard node(name)?.typeName == "int", let value = Int(text), text == String(value) else {
            problem(name, "must be a whole number from \(range.lowerBound) to \(range.upperBound), without quotes")
            return standard
        }
        guard range.contains(value) else {
            problem(name, "is out of range; it must be from \(range.lowerBound) to \(range.upperBound)")
            return standard
        }
        return value
    }

    package func boolean(_ name: String, default standard: Bool) -> Bool {
        guard let text = written(name) else { return standard }
        switch text {
        case "true", "on": return true
        case "false", "off": return false
        default:
            problem(name, "must be true or false")
            return standard
        }
    }

    /// A duration: an integer and `ms`, `s`, `m`, `h` or `d`.
    package func duration(_ name: String, in range: ClosedRange<Duration>, default standard: Duration) -> Duration {
        guard let text = written(name) else { return standard }
        guard !DurationText.isOff(text) else {
            problem(name, "cannot be off; give a duration such as \(DurationText.text(of: standard))")
            return standard
        }
        return bounded(name, text, in: range) ?? standard
    }

    /// A duration, or nil for `off`.
    package func durationOrOff(_ name: String, in range: ClosedRange<Duration>, default standard: Duration?)
        -> Duration?
    {
        guard let text = written(name) else { return standard }
        return DurationText.isOff(text) ? nil : bounded(name, text, in: range) ?? standard
    }

    private func bounded(_ name: String, _ text: String, in range: ClosedRange<Duration>) -> Duration? {
        guard let value = DurationText.duration(text) else {
            problem(name, "must be a whole number and a unit, ms, s, m, h or d, as in 90s")
            return nil
        }
        guard range.contains(value) else {
            problem(
                name,
                "is out of range; it must be from \(DurationText.text(of: range.lowerBound)) to "
                    + DurationText.text(of: range.upperBound))
            return nil
        }
        return value
    }

    /// An absolute path. A path in the file may be relative to the file.
    package func path(_ name: String, default standard: String) -> String {
        guard let text = text(name) else { return standard }
        guard !text.isEmpty else {
            problem(name, "must be a path, not empty")
            return standard
        }
        return reader.absolute(text)
    }

    /// The path of a socket, at most 107 bytes, the size of sockaddr_un.
    package func socketPath(_ name: String, default standard: String) -> String {
        let path = path(name, default: standard)
        if path.utf8.count > 107 {
            problem(name, "is too long for a Unix socket; a path has at most 107 bytes")
        }
        return path
    }

    /// The permission bits of a socket file. A peer needs write permission to connect. Execute permission has no
    /// meaning and is refused.
    package func mode(_ name: String, default standard: UInt32) -> UInt32 {
        guard let text = written(name) else { return standard }
        guard (3...4).contains(text.utf8.count), let mode = UInt32(text, radix: 8), mode & ~0o666 == 0,
            mode & 0o600 == 0o600
        else {
            problem(name, "must be a socket's permission bits in octal, as in \"0660\", with 06 for the owner")
            return standard
        }
        return mode
    }

    package func choice<Value: RawRepresentable & CaseIterable>(_ name: String, default standard: Value) -> Value
    where Value.RawValue == String {
        guard let text = written(name) else { return standard }
        guard let value = Value(rawValue: text) else {
            let known = Value.allCases.map(\.rawValue)
            let suggestion = NearestName.suggestion(for: text, among: known).map { "; did you mean \($0)?" } ?? ""
            problem(name, "must be one of \(known.joined(separator: ", "))" + suggestion)
            return standard
        }
        return value
    }

    /// A required name, which metrics' labels and records contain; nil after a reported problem.
    package func name(_ key: String) -> String? {
        guard let text = text(key) else {
            if node(key) == nil { problem(key, "is missing; give a name") }
            return nil
        }
        guard ConfigurationText.isName(text) else {
            problem(key, "must be 1 to 64 letters, digits, dots, hyphens, underscores or @")
            return nil
        }
        return text
    }

    /// A group by name or number.
    package func group(_ name: String) -> Account? {
        guard let text = written(name) else { return nil }
        guard let group = Accounts.group(text) else {
            problem(name, "there is no group “\(ConfigurationText.shown(text))”; make it (groupadd), or name another")
            return nil
        }
        return group
    }

    /// A user by name or number.
    package func user(_ name: String) -> Account? {
        guard let text = written(name) else { return nil }
        guard let user = Accounts.user(text) else {
            problem(name, "there is no user “\(ConfigurationText.shown(text))”; make it (useradd), or name another")
            return nil
        }
        return Account(name: text, id: user.uid)
    }
}

extension DurationText {
    /// Returns true for `off`, with or without quotes, and for `false`, since YAML 1.1 reads `off` as a boolean.
    package static func isOff(_ text: String) -> Bool {
        ["off", "Off", "OFF", "false", "False", "FALSE"].contains(text)
    }
}

/// Texts from the file: the accepted forms, and their representation in messages.
package enum ConfigurationText {
    /// Returns true for a text without control characters.
    package static func isPlain(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F } && text.utf8.count <= 4096
    }

    /// Returns true for 1 to 64 letters, digits, `.`, `_`, `-` and `@`, which fit into a metric's label and a record
    /// without escapes.
    package static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.unicodeScalars.allSatisfy {
                $0.isASCII
                    && ($0.properties.isAlphabetic || $0.properties.numericType != nil
                        || "._-@".unicodeScalars.contains($0))
            }
    }

    /// A text of the file as shown in a message, truncated and without control characters.
    package static func shown(_ text: String) -> String {
        let scalars = text.unicodeScalars.prefix(64).map { $0.value >= 0x20 && $0.value != 0x7F ? Character($0) : "?" }
        return String(scalars) + (text.unicodeScalars.count > 64 ? "…" : "")
    }
}
