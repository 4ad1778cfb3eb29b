import AuditChain

/// Builds the HTML of the assessor's page. All text from records and responses is escaped here and nowhere else.
struct PageWriter {
    private(set) var html = ""
    /// The figures whose records the appendix lists, in the order of their numbers.
    private(set) var figures: [Figure] = []

    struct Figure {
        let references: RecordReferences
        /// A description of the records that the figure counts, such as their event and outcome.
        let condition: String
    }

    /// The content of one table cell.
    enum Cell {
        case text(String)
        case code(String)
        /// The beginning of a key's hash, on one line.
        case key(AuditDigest?)
        /// A node's or caller's name, on one line.
        case name(String)
        /// A time to the second, on one line.
        case time(AuditTime?)
        case count(Int)
        case figure(RecordReferences, String)
        case places([RecordPlace])
        case strong(String)
        case markup(String)

        static let none = Cell.text("–")
    }

    static func escaped(_ text: String) -> String {
        var escaped = ""
        escaped.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            // Replace direction marks and other invisible characters. Otherwise one name could look like another.
            case _ where scalar.properties.generalCategory == .format || scalar.properties.generalCategory == .control:
                escaped += "\u{FFFD}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    mutating func raw(_ markup: String) { html += markup }

    mutating func heading(_ text: String, id: String) {
        html += "<h2 id=\"\(id)\">\(Self.escaped(text))</h2>\n"
    }

    mutating func subheading(_ text: String) { html += "<h3>\(Self.escaped(text))</h3>\n" }

    mutating func paragraph(_ text: String) { html += "<p>\(Self.escaped(text))</p>\n" }

    mutating func note(_ text: String) { html += "<p class=\"note\">\(Self.escaped(text))</p>\n" }

    mutating func commands(_ lines: String...) {
        html += "<pre>" + lines.map(Self.escaped).joined(separator: "\n") + "</pre>\n"
    }

    mutating func list(_ items: [String]) {
        guard !items.isEmpty else { return }
        html += "<ul>\n" + items.map { "<li>\(Self.escaped($0))</li>\n" }.joined() + "</ul>\n"
    }

    mutating func table(_ head: [String], _ rows: [[Cell]], class name: String = "") {
        guard !rows.isEmpty else { return note("None.") }
        html += "<table\(name.isEmpty ? "" : " class=\"\(name)\"")><thead><tr>"
        html += head.map { "<th scope=\"col\">\(Self.escaped($0))</th>" }.joined()
        html += "</tr></thead><tbody>\n"
        for row in rows {
            html += "<tr>"
            for cell in row {
                switch cell {
                case .count, .figure: html += "<td class=\"n\">\(markup(cell))</td>"
                default: html += "<td>\(markup(cell))</td>"
                }
            }
            html += "</tr>\n"
        }
        html += "</tbody></table>\n"
    }

    /// Writes a table of at most `most` rows, and a note with the number of rows left out.
    ///
    /// - Parameters:
    ///   - omitted: the number of items that were counted but are not in `rows`.
    ///   - what: the plural noun for the items in the note, such as `acts`.
    mutating func table<Row>(
        _ head: [String], _ rows: [Row], most: Int, omitted: Int = 0, _ what: String, in place: String = "the export",
        cells: (Row) -> [Cell]
    ) {
        table(head, rows.prefix(most).map(cells))
        let more = omitted + max(0, rows.count - most)
        if more > 0 { note("\(more.grouped) more \(what) are in \(place).") }
    }

    /// Writes a table without a header row: each row has a name and its cell.
    mutating func pairs(_ rows: [(String, Cell)]) {
        html += "<table class=\"pairs\"><tbody>\n"
        for (name, cell) in rows {
            html += "<tr><th scope=\"row\">\(Self.escaped(name))</th><td>\(markup(cell))</td></tr>\n"
        }
        html += "</tbody></table>\n"
    }

    mutating func markup(_ cell: Cell) -> String {
        switch cell {
        case .text(let text): Self.escaped(text)
        case .key(let key): key.map { "<code class=\"t\">\(Self.escaped($0.short))</code>" } ?? "–"
        case .name(let name): "<span class=\"t\">\(Self.escaped(name))</span>"
        case .time(let time): time.map { "<span class=\"t\">\(Self.escaped($0.shown))</span>" } ?? "–"
        case .code(let text): "<code>\(Self.escaped(text))</code>"
        case .strong(let text): "<strong>\(Self.escaped(text))</strong>"
        case .count(let count): count.grouped
        case .figure(let references, let condition): figure(references, condition)
        case .places(let places):
            places.isEmpty
                ? "–" : places.map { "<span class=\"place\">\(Self.escaped($0.text))</span>" }.joined(separator: ", ")
        case .markup(let markup): markup
        }
    }

    /// Returns the number of records as a link to their list in the appendix. If there is only one, its node and
    /// sequence follow the number instead.
    private mutating func figure(_ references: RecordReferences, _ condition: String) -> String {
        guard !references.isEmpty else { return "0" }
        if references.count == 1, let place = references.beginning.first {
            return "1 <span class=\"place\">(\(Self.escaped(place.text)))</span>"
        }
        figures.append(Figure(references: references, condition: condition))
        return "<a href=\"#f\(figures.count)\">\(references.count.grouped)</a>"
    }
}

extension AuditTime {
    /// The time as the page shows it, in UTC, such as `2026-01-31 12:00:02`.
    var shown: String { String(text.prefix(19)).replacing("T", with: " ") }
    var day: String { String(text.prefix(10)) }
}

extension AuditDigest {
    /// The first 8 characters of the key's hash in base64, which distinguish the keys of a page. The inventory has the
    /// complete hash.
    var short: String { String(base64.prefix(8)) + "…" }
}
