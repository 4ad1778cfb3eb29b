import AuditChain
import Encodings

/// The section with the verdict on the records' integrity, which is the first, and the section with each node's chain and
/// the commands by which an assessor can repeat the verification.
struct VerdictSection {
    let builder: ReportBuilder
    let findings: [Finding]
    let export: VerifiedExport
    let given: Set<Requirement.Evidence>

    func writeChains(to page: inout PageWriter) {
        page.heading("3. The record", id: "record")
        writeNodes(to: &page)
        writeRetention(to: &page)
        writeEvents(to: &page)
        page.subheading("Repeat it without this program")
        page.paragraph(
            "The export is \(export.file), \(export.bytes.grouped) bytes. In the folder with the files that you were given:"
        )
        page.commands("sha256sum \(export.file)")
        page.paragraph("prints \(export.digest.hex).")
        page.paragraph(
            "Python and openssl follow every hash and check every signature. With --report they count the totals in this page's JSON, "
                + "its findings and the linked figures again from the export. They do not compare the other text of the page: read "
                + "the findings that recount-report --findings prints, if you did not make the page yourself. verify-audit and recount-report of the version that made this page are in its package, "
                + "under /usr/share/doc/paytokend/examples. Take them from a signed release: a copy that came with these files proves "
                + "nothing.")
        page.commands(commands)
        page.paragraph(
            "The public keys must come from a source that you trust, and not with the export: a person who can replace both can show you "
                + "another record. A head that was kept on another host (audit head) shows an end that was cut off: --head FILE."
        )
        page.requirements(Requirement.ofVerdict, given: given)
    }

    private var commands: String {
        (["python3 /usr/share/doc/paytokend/examples/verify-audit", "--report", export.page, export.file]
            + export.keyFiles
            + (export.pinning.map { ["--pinned-by", $0.name] } ?? [])).joined(separator: " ")
    }

    func writeVerdict(to page: inout PageWriter) {
        page.heading("1. Verdict", id: "verdict")
        let records = builder.system.nodes.values.reduce(0) { $0 + $1.inPeriod }
        if export.isProved {
            let losses = findings.filter { $0.lostRecords > 0 }
            let lost = losses.reduce(0) { $0 + $1.lostRecords }
            let verdict =
                losses.isEmpty
                ? "Intact."
                : "Intact, with \(losses.count) loss\(losses.count == 1 ? "" : "es"): \(lost.grouped) records."
            page.raw(
                "<div class=\"verdict \(losses.isEmpty ? "good" : "bad")\"><strong>\(verdict)</strong> Every record of every node "
                    + "follows from the one before, and signed checkpoints seal them to their ends. The figures below count "
                    + "\(records.grouped) records.</div>\n")
            page.list(
                losses.map { loss in
                    let range = loss.first.map { " (\($0) to \(loss.last ?? $0))" } ?? ""
                    return "Node \(loss.node?.name ?? "–"): \(loss.kind == .recordsLost ? "at least " : "")"
                        + "\(loss.lostRecords.grouped) records\(range)"
                        + "\(FindingsSection.range(loss)).\(heads(for: loss))"
                })
        } else {
            page.raw(
                "<div class=\"verdict bad\"><strong>Not proved.</strong> The verification did not find every record whole and "
                    + "sealed, as said below. The figures count what can be read, and prove nothing by themselves.</div>\n"
            )
        }
        if builder.reconciliation.unexplained > 0 {
            page.raw(
                "<div class=\"verdict bad\"><strong>\(builder.reconciliation.unexplained.grouped) uses of keys in no "
                    + "record.</strong> The tokens themselves counted more than this program can have caused: see "
                    + "<a href=\"#use\">Use</a>, at its end.</div>\n")
        }
        if let fault = export.verdict.fault { page.paragraph("Broken: \(fault.description)") }
        if let count = export.verdict.filteredRecords {
            page.paragraph("The export was made with conditions, so \(count.grouped) records stand alone.")
        }
        if builder.unreadable > 0 {
            page.paragraph("\(builder.unreadable.grouped) lines are neither records nor checkpoints.")
        }
        for node in builder.system.sortedNodes where node.first > 1 {
            page.paragraph(
                "Of node \(node.node.name) this export begins with record \(node.first.grouped). What was before is not "
                    + "counted on this page: who made a key, whose approval it had, and what was in force then may be among it. Where "
                    + "it was archived, \"Old records left the ledger\" below names the file, and audit report --archive reads it."
            )
        }
        // The table already shows the intact nodes, with more details.
        let faulty = export.verdict.nodes.filter { !$0.isIntact }
        page.list(faulty.map(\.description))
    }

    /// Returns a sentence about the people whose audit checkpoints may show what a restored ledger lacks.
    private func heads(for loss: Finding) -> String {
        let readers = loss.node.flatMap { builder.system.nodes[$0] }?.headReaders.keys.sorted() ?? []
        guard loss.kind == .recordsLost, !readers.isEmpty else { return "" }
        return " Compare the audit checkpoints of this time that \(readers.joined(separator: ", ")) kept of the node."
    }

    private func writeNodes(to page: inout PageWriter) {
        page.subheading("Each node's chain")
        page.table(
            ["Node", "Records", "In the period", "Sealed to", "Sealed at", "Not sealed", "Keys"],
            builder.system.sortedNodes.map { node in
                let verdict = export.verdict.nodes.first { $0.node == node.node }
                let range = verdict?.range
                return [
                    .name(node.node.name),
                    .text("\(node.first.grouped) to \(node.last.grouped)"),
                    .count(node.inPeriod), range.map { .count($0.sealed) } ?? .none,
                    .time(range?.sealedAt), range.map { .count($0.unsealed) } ?? .none,
                    .text(verdict?.source?.description ?? "–"),
                ]
            })
    }

    private func writeRetention(to page: inout PageWriter) {
        page.subheading("How long records are kept")
        page.table(
            [
                "Node", "Oldest record", "Newest record", "Kept in the ledger (retain_records)",
                "Audit checkpoints printed by",
            ],
            builder.system.sortedNodes.map { node in
                let readers = node.headReaders.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
                return [
                    .name(node.node.name), .time(node.firstTime), .time(node.lastTime),
                    .text(node.values.isEmpty ? "not recorded" : node.values["ledger.retain_records"] ?? "off"),
                    .text(
                        readers.isEmpty
                            ? "nobody" : readers.map { "\($0.key) \($0.value.grouped)" }.joined(separator: ", ")),
                ]
            })
        page.note(
            "Archives of older records are listed below. An audit checkpoint that a person kept elsewhere shows a loss: compare those "
                + "of the time of each loss with --head. Where they were kept, the record does not know.")
    }

    private func writeEvents(to page: inout PageWriter) {
        let system = builder.system
        page.subheading("What happened to the record itself")
        var rows: [[PageWriter.Cell]] = []
        for (what, moments) in [
            ("An older ledger was taken into service", system.restores),
            ("A clock was accepted", system.acceptedClocks),
            ("A key that seals the record was taken into service", system.auditKeyChanges),
            ("Old records left the ledger for a file", system.archives),
        ] {
            for moment in moments {
                rows.append([
                    .text("\(what), \(moment.time.shown): \(moment.text)"), .name(moment.place.node.name),
                    .text(
                        [
                            moment.by ?? "the daemon",
                            builder.acts.sentence(ofApproval: moment.approval, at: moment.time),
                        ]
                        .compactMap(\.self).joined(separator: "; ")),
                    .places([moment.place]),
                ])
            }
        }
        page.table(
            ["What", "Node", "By", "Records"], rows, most: rows.count, omitted: system.omittedArchives, "archives"
        ) { $0 }
    }
}
