/// Plain text in aligned columns, which are separated by two blanks. No line ends with a blank.
///
/// If a terminal is too narrow for a list, cells are shortened as far as their columns allow. If that is not enough,
/// the least important columns are left out (``fitted(to:)``).
package struct Table {
    private var rows: [[String]] = []
    private let columns: [Column]
    private let hasHeader: Bool

    /// Makes a table with a header of column names. ``add(_:)`` appends the rows.
    package init(columns: [Column]) {
        self.columns = columns
        rows = [columns.map(\.name)]
        hasHeader = true
    }

    /// Makes a table without a header: each line contains a name and its value.
    package init(pairs: [(String, String)]) {
        columns = []
        rows = pairs.map { [$0.0, $0.1] }
        hasHeader = false
    }

    package mutating func add(_ cells: [String]) {
        rows.append(cells)
    }

    package var isEmpty: Bool { rows.count == (hasHeader ? 1 : 0) }

    /// The complete text. Every line ends with a newline.
    package var text: String { Self.text(rows.map { $0.map(Printable.text) }) }

    /// The text with lines of at most `width` terminal columns, as far as the table's columns allow.
    ///
    /// Cells are shortened first, beginning with those of less important columns, and only as much as necessary. If
    /// that is not enough, the least important column is left out, and the remaining columns are tried again at full
    /// width. Columns without an importance are never left out. They are shortened only after all other columns have
    /// been left out, and keep a length that still distinguishes their values. In a table of names and values, the
    /// values are wrapped.
    ///
    /// - Returns: the text, and the names of the columns that were left out.
    package func fitted(to width: Int) -> (text: String, omitted: [String]) {
        let safe = rows.map { $0.map(Printable.text) }
        guard hasHeader else { return (Self.text(Self.wrapped(safe, to: width)), []) }
        // The columns that may be left out, least important first; among columns of equal importance, the last column
        // first.
        let leaving = columns.indices.filter { columns[$0].importance != nil }
            .sorted { (columns[$0].importance ?? 0, -$0) < (columns[$1].importance ?? 0, -$1) }
        for count in 0...leaving.count {
            let omitted = Set(leaving.prefix(count))
            let kept = columns.indices.filter { !omitted.contains($0) }
            let cells = safe.map { row in kept.map { $0 < row.count ? row[$0] : "" } }
            let columns = kept.map { self.columns[$0] }
            let isLast = count == leaving.count
            var (narrowed, isNarrowEnough) = Self.narrow(cells, columns, to: width, shortensAll: isLast)
            if isLast, !isNarrowEnough {
                narrowed = Self.narrow(cells, columns, to: width, shortensAll: true, isLastResort: true).rows
            }
            if isNarrowEnough || isLast {
                return (Self.text(narrowed), omitted.sorted().map { self.columns[$0].name })
            }
        }
        return (text, [])
    }

    /// Returns the text for standard output. It is fitted to the width of a terminal, unless `isWide` is true. For a
    /// file or pipe, it is the complete text.
    ///
    /// - Returns: the text, and a sentence that names the columns that were left out. The sentence is nil if no column
    ///   was left out.
    package func shown(isWide: Bool) -> (text: String, note: String?) {
        guard !isWide, let width = TerminalWidth.ofStandardOutput() else { return (text, nil) }
        let (text, omitted) = fitted(to: width)
        guard !omitted.isEmpty else { return (text, nil) }
        return (text, "Left out because the terminal is narrow: \(omitted.joined(separator: ", ")). See --wide.")
    }

    private static func narrow(
        _ rows: [[String]], _ columns: [Column], to width: Int, shortensAll: Bool, isLastResort: Bool = false
    ) -> (rows: [[String]], isNarrowEnough: Bool) {
        var rows = rows
        func excess() -> Int { widths(rows).reduce(0, +) + 2 * max(0, columns.count - 1) - width }
        let order = columns.indices.filter { shortensAll || columns[$0].importance != nil }.sorted {
            (columns[$0].importance ?? .max, -$0) < (columns[$1].importance ?? .max, -$1)
        }
        for index in order {
            let excess = excess()
            guard excess > 0 else { break }
            let values = rows.dropFirst().map { $0[index] }
            guard let (least, cut) = columns[index].smallestWidth(of: values, isLastResort: isLastResort) else {
                continue
            }
            let limit = max(least, widths(rows)[index] - excess, DisplayWidth.of(columns[index].name))
            for row in rows.indices.dropFirst() { rows[row][index] = cut.shortened(rows[row][index], to: limit) }
        }
        return (rows, excess() <= 0)
    }

    /// Wraps the second column's values at blanks, so that each line fits next to the first column. The second column
    /// keeps a width of at least `leastValues`, even if a line then exceeds the terminal.
    private static func wrapped(_ rows: [[String]], to width: Int) -> [[String]] {
        let leastValues = 24
        let room = max(leastValues, width - 2 - (widths(rows).first ?? 0))
        return rows.flatMap { row -> [[String]] in
            guard row.count == 2, DisplayWidth.of(row[1]) > room else { return [row] }
            var lines: [String] = []
            for word in row[1].split(separator: " ", omittingEmptySubsequences: false).map(String.init) {
                if let last = lines.last, DisplayWidth.of(last) + 1 + DisplayWidth.of(word) <= room {
                    lines[lines.count - 1] = last + " " + word
                } else {
                    lines.append(word)
                }
            }
            return lines.enumerated().map { [$0 == 0 ? row[0] : "", $1] }
        }
    }

    /// The end at which a long text is truncated.
    fileprivate enum Cut: CaseIterable {
        case end, beginning

        func shortened(_ text: String, to limit: Int) -> String {
            guard DisplayWidth.of(text) > limit else { return text }
            var part = ""
            var room = limit - 1
            for character in self == .end ? Array(text) : text.reversed() {
                room -= DisplayWidth.of(character)
                guard room >= 0 else { break }
                part.append(character)
            }
            return self == .end ? part + "…" : "…" + String(part.reversed())
        }
    }

    private static func widths(_ rows: [[String]]) -> [Int] {
        (0..<(rows.map(\.count).max() ?? 0)).map { column in
            rows.map { column < $0.count ? DisplayWidth.of($0[column]) : 0 }.max() ?? 0
        }
    }

    private static func text(_ rows: [[String]]) -> String {
        let widths = widths(rows)
        var text = ""
        for row in rows {
            var line = ""
            for (column, cell) in row.enumerated() {
                line += cell
                // The line ends with the last nonempty cell, so that no blanks follow it.
                guard row[(column + 1)...].contains(where: { !$0.isEmpty }) else { break }
                line += String(repeating: " ", count: widths[column] - DisplayWidth.of(cell) + 2)
            }
            text += line + "\n"
        }
        return text
    }
}

extension Table {
    /// A column's name, and how it may be shortened or left out.
    package struct Column: ExpressibleByStringLiteral {
        package enum Shortening: Sendable {
            /// Values that are never shortened: the column is shown in full or left out.
            case none
            /// An identifier or a name, shortened to a beginning that is long enough to distinguish all values in the
            /// table.
            case beginning
            /// Words, shortened to as many as fit.
            case words
        }

        let name: String
        /// The column's importance. Columns with the lowest number are left out first; nil for a column that is never
        /// left out.
        let importance: Int?
        let shortening: Shortening

        package init(_ name: String, importance: Int? = nil, shortening: Shortening = .none) {
            self.name = name
            self.importance = importance
            self.shortening = shortening
        }

        package init(stringLiteral name: String) { self.init(name) }

        /// The smallest widths to which identifiers and words are shortened, in terminal columns. The ellipsis is
        /// included.
        private static let (leastBeginning, leastWords) = (9, 16)

        /// Returns the smallest width to which the column's values can be shortened, and the end at which they are cut.
        /// Returns nil if the values must not be shortened.
        ///
        /// - Parameter isLastResort: true if no further column can be left out and the table still is too wide. Words
        ///   may then become as short as identifiers, and identifiers may be cut at their beginning. Identifiers of one
        ///   company often differ only at the end.
        fileprivate func smallestWidth(of values: [String], isLastResort: Bool) -> (width: Int, cut: Table.Cut)? {
            switch shortening {
            case .none: return nil
            case .words: return (isLastResort ? Self.leastBeginning : Self.leastWords, .end)
            case .beginning:
                let distinct = Set(values)
                let longest = max(Self.leastBeginning, distinct.map(DisplayWidth.of).max() ?? 0)
                for width in Self.leastBeginning...longest {
                    for cut in isLastResort ? Table.Cut.allCases : [.end]
                    where Set(distinct.map { cut.shortened($0, to: width) }).count == distinct.count {
                        return (width, cut)
                    }
                }
                return nil
            }
        }
    }
}
