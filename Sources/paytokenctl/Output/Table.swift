import StrictJSON

/// Plain text in columns that line up: two blanks between them, none at the end of a line.
struct Table {
    private var rows: [[String]] = []
    private let hasHeader: Bool

    /// Rows under column names.
    init(columns: [String]) {
        rows = [columns]
        hasHeader = true
    }

    /// Names and values, one pair a line.
    init(pairs: [(String, String)]) {
        rows = pairs.map { [$0.0, $0.1] }
        hasHeader = false
    }

    mutating func add(_ cells: [String]) {
        rows.append(cells)
    }

    var isEmpty: Bool { rows.count == (hasHeader ? 1 : 0) }

    /// Every line with a newline at its end.
    var text: String {
        let safe = rows.map { $0.map(Printable.text) }
        let columns = safe.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in
            safe.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
        }
        var text = ""
        for row in safe {
            var line = ""
            for (column, cell) in row.enumerated() {
                line += cell
                // The last cell that says anything ends the line.
                guard row[(column + 1)...].contains(where: { !$0.isEmpty }) else { break }
                line += String(repeating: " ", count: widths[column] - cell.count + 2)
            }
            text += line + "\n"
        }
        return text
    }
}

/// A JSON document as names and values for a person: `chain[0].subject`.
enum Flattening {
    static func pairs(_ value: JSONValue, name: String = "") -> [(String, String)] {
        switch value {
        case .object(let object) where !object.members.isEmpty:
            return object.members.flatMap { member in
                pairs(member.value, name: name.isEmpty ? member.name : "\(name).\(member.name)")
            }
        case .array(let elements):
            let words = elements.compactMap(scalar)
            if words.count == elements.count { return [(name, words.isEmpty ? "-" : words.joined(separator: ", "))] }
            return elements.enumerated().flatMap { index, element in pairs(element, name: "\(name)[\(index)]") }
        default: return [(name, scalar(value) ?? "-")]
        }
    }

    private static func scalar(_ value: JSONValue) -> String? {
        switch value {
        case .null: "-"
        case .bool(let value): value ? "yes" : "no"
        case .number(let number): number.text
        case .string(let text): text
        case .array, .object: nil
        }
    }
}
