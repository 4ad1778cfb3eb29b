import AuditChain
import Encodings

/// The appendix of the assessor's page, with the records that each figure counts.
struct FiguresSection {
    let figures: [PageWriter.Figure]
    let export: VerifiedExport

    func write(to page: inout PageWriter) {
        page.heading("Figures and their records", id: "figures")
        page.paragraph(
            "A record is named by its node and sequence. In the export it is one line; for node-1 17:")
        page.commands("grep -m 1 '^{\"node\":\"node-1\",\"sequence\":17,' \(export.file)")
        page.raw("<table><thead><tr><th>No.</th><th>Which</th><th>Records</th></tr></thead><tbody>\n")
        for (index, figure) in figures.enumerated() {
            let references = figure.references
            let parts = references.parts.map { part in
                "\(part.node.name): \(part.count.grouped) from \(part.first) to \(part.last)"
            }
            let named = references.beginning.map(\.text).joined(separator: ", ")
            let isAll = references.beginning.count == references.count
            page.raw(
                "<tr id=\"f\(index + 1)\"><td class=\"n\">\(index + 1)</td><td>\(PageWriter.escaped(figure.condition))</td><td>"
                    + PageWriter.escaped(isAll ? named : parts.joined(separator: "; ") + "; first: \(named)")
                    + "</td></tr>\n")
        }
        page.raw("</tbody></table>\n")
    }
}
