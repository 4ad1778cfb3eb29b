/// Plain text in columns that line up: two blanks between them, none at the end of a line.
package struct Table {
    private var rows: [[String]] = []
    private let hasHeader: Bool

    /// Rows under column names.
    package init(columns: [String]) {
        rows = [columns]
        hasHeader = true
    }

    /// Names and values, one pair a line.
    package init(pairs: [(String, String)]) {
        rows = pairs.map { [$0.0, $0.1] }
        hasHeader = false
    }

    package mutating func add(_ cells: [String]) {
        rows.append(cells)
    }

    package var isEmpty: Bool { rows.count == (hasHeader ? 1 : 0) }

    /// Every line with a newline at its end.
    package var text: String {
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
