import ConfigurationFile
import Foundation
import Telemetry

extension FuzzTarget {
    /// A configuration file, read with every kind of value that the programs have. Two lines in front of it change no value,
    /// and move each problem by two lines. A value has the kind and the range that the section demands.
    static let configuration = FuzzTarget(
        name: "configuration", longest: 2048,
        sources: ["ConfigurationFile/Configuration", "ConfigurationFile/LogSection.swift", "Encodings/Times.swift"]
    ) { input in
        guard let text = String(validating: input, as: UTF8.self), !text.unicodeScalars.starts(with: ["\u{FEFF}"])
        else {
            return
        }
        let (values, found) = ValuesOfEveryKind.read(text)
        let (shiftedValues, shiftedFound) = ValuesOfEveryKind.read("# A comment.\n\n" + text)
        try expect(found.count == shiftedFound.count, "two lines in front of a file change the number of its problems")
        // If several keys occur twice and one of them is a section, Yams names any of them, in no certain order.
        let problems = found.filter { !$0.message.hasPrefix("duplicate key") }
        let shiftedProblems = shiftedFound.filter { !$0.message.hasPrefix("duplicate key") }
        try expect(
            problems.map(\.key) == shiftedProblems.map(\.key), "two lines in front of a file change its problems")
        try expect(
            problems.map { $0.line.map { $0 + 2 } } == shiftedProblems.map(\.line),
            "a problem's line does not move with the text: \(problems)")
        for problem in found {
            try expect(
                problem.description.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F },
                "a problem's message has a control character")
        }
        guard found.isEmpty else { return }
        try expect(values == shiftedValues, "two lines in front of a file change its values")
        try values.check(against: text)
    }
}

/// Values of every kind.
private struct ValuesOfEveryKind: Equatable {
    private static let keys = [
        "count", "flag", "time", "rest", "place", "socket", "mode", "name", "names", "kinds", "log", "parts",
    ]

    let count: Int
    let flag: Bool
    let time: Duration
    let rest: Duration?
    let socket: String
    let mode: UInt32
    let name: String?
    let names: [String]
    let kinds: [String]
    let log: LogSettings
    let parts: [Int]

    static func read(_ text: String) -> (ValuesOfEveryKind, [ConfigurationProblem]) {
        let reader = ConfigurationReader(file: "/f", environment: [:])
        let document = YAMLDocument.root(of: text, reader: reader)
        let values = ValuesOfEveryKind(ConfigurationSection(document, path: "", keys: keys, reader: reader))
        return (values, reader.problems)
    }

    private init(_ root: ConfigurationSection) {
        count = root.integer("count", in: 1...256, default: 2)
        flag = root.boolean("flag", default: false)
        time = root.duration("time", in: .milliseconds(100)...(.seconds(600)), default: .seconds(10))
        rest = root.durationOrOff("rest", in: .seconds(1)...(.seconds(86_400)), default: nil)
        socket = root.socketPath("socket", default: root.path("place", default: "/p"))
        mode = root.mode("mode", default: 0o660)
        name = root.name("name")
        names = (root.texts("names") ?? []).map(\.value)
        kinds = root.choices("kinds", among: ["decrypt", "admin", "audit"]).map(\.value)
        log = LogSettings(root.section("log", keys: LogSettings.keys))
        parts = (root.list("parts") ?? []).map { part in
            ConfigurationSection(part.value, path: part.key, keys: ["size"], reader: root.reader)
                .integer("size", in: 0...9, default: 0)
        }
    }

    func check(against text: String) throws {
        try expect((1...256).contains(count) && parts.allSatisfy { (0...9).contains($0) }, "a number is out of range")
        try expect(time >= .milliseconds(100) && time <= .seconds(600), "a duration is out of range")
        try expect(rest.map { $0 >= .seconds(1) && $0 <= .seconds(86_400) } ?? true, "a duration is out of range")
        try expect(mode & 0o600 == 0o600 && mode <= 0o666, "a mode is out of range")
        try expect(socket.hasPrefix("/") && socket.utf8.count <= 107, "a socket's path is not absolute, or too long")
        try expect(name.map { !$0.isEmpty && $0.utf8.count <= 64 } ?? true, "a name is empty or too long")
        try expect(Set(kinds).isSubset(of: ["decrypt", "admin", "audit"]), "an unknown choice is accepted")
        // A second reader of the simplest form: one key on a line of its own.
        let lines = text.split(whereSeparator: \.isNewline)
        if let written = Self.written("count", in: lines) {
            try expect(Int(written) == count, "a number is read wrongly")
        }
        if let written = Self.written("time", in: lines), let milliseconds = Self.milliseconds(written) {
            try expect(.milliseconds(milliseconds) == time, "a duration is read wrongly")
        }
    }

    /// The digits and letters after a key at a line's beginning, if the text has no other form that could contain it.
    private static func written(_ key: String, in lines: [Substring]) -> String? {
        guard !lines.contains(where: { line in line.contains { "\"'{[|>?!#%-".contains($0) } }) else { return nil }
        let found = lines.filter { $0.hasPrefix(key + ": ") }
        guard found.count == 1, let value = found.first?.dropFirst(key.count + 2), !value.isEmpty,
            value.utf8.allSatisfy({ 0x30...0x39 ~= $0 || 0x61...0x7A ~= $0 })
        else { return nil }
        return String(value)
    }

    /// A duration's text in milliseconds.
    private static func milliseconds(_ text: String) -> Int? {
        for (unit, size) in [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)]
        where text.hasSuffix(unit) {
            return Int(text.dropLast(unit.count)).map { $0 * size }
        }
        return nil
    }
}
