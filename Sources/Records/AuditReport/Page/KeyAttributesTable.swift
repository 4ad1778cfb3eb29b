import AuditChain
import DaemonAPI
import Encodings

/// The table of the private keys' attributes, as the HSM tokens report them, with a warning for each that is insecure
/// or differs from the record.
struct KeyAttributesTable {
    let live: LiveState
    /// The record's history of each key, by publicKeyHash in base64.
    let histories: [String: KeyHistory]
    let maximumRows: Int

    private struct Row {
        let key: KeySummary
        let attributes: KeyAttributes
        let warnings: [String]
    }

    func write(to page: inout PageWriter) {
        page.subheading("The private keys, as their tokens describe them now")
        var rows: [Row] = []
        var unread: [KeySummary] = []
        for key in live.keys {
            guard let attributes = key.attributes else {
                unread.append(key)
                continue
            }
            let arrival = histories[key.publicKeyHash]?.arrival?.step
            for one in attributes {
                rows.append(Row(key: key, attributes: one, warnings: Self.warnings(one, key, arrival: arrival)))
            }
        }
        let warned = rows.filter { !$0.warnings.isEmpty }
        let away = rows.filter { $0.attributes.values == nil }
        let described = rows.count - away.count
        if !warned.isEmpty {
            page.raw("<div class=\"verdict bad\"><strong>")
            page.raw(
                PageWriter.escaped(
                    "\(warned.count.grouped) of \(described.grouped) private keys in tokens are not as they "
                        + "have to be, or not as the record says.") + "</strong> They stand first.</div>\n")
        }
        // Show rows with warnings first, then unavailable HSM tokens, then all others.
        let shown = warned + away + rows.filter { $0.attributes.values != nil && $0.warnings.isEmpty }
        page.table(
            [
                "Key", "Token", "Strength", "Sensitive", "Extractable", "Always sensitive", "Never extractable",
                "Local", "Came, by the record", "Warnings",
            ], shown.prefix(maximumRows).map(cells))
        if shown.count > maximumRows {
            page.note("\((shown.count - maximumRows).grouped) more rows, of \(rows.count.grouped).")
        }
        writeKeysWithoutAttributes(unread, to: &page)
        page.note(
            "Read from each token when the page was made: CKA_SENSITIVE, CKA_EXTRACTABLE, CKA_ALWAYS_SENSITIVE, "
                + "CKA_NEVER_EXTRACTABLE and CKA_LOCAL (PKCS#11). They are the token's own word, and a token may lie. A key that came "
                + "from a file was outside before: its token says no of the last three, which is as it has to be.")
    }

    private func cells(_ row: Row) -> [PageWriter.Cell] {
        let arrival = histories[row.key.publicKeyHash]?.arrival?.step
        let warnings = PageWriter.Cell.strong(row.warnings.joined(separator: " "))
        let values = row.attributes.values
        return [
            .key(AuditDigest(base64: row.key.publicKeyHash)), .name(row.attributes.token),
            .text(values.map { $0.strength ?? "not told" } ?? "away"), .text(Self.yesOrNo(values?.sensitive)),
            .text(Self.yesOrNo(values?.extractable)), .text(Self.yesOrNo(values?.alwaysSensitive)),
            .text(Self.yesOrNo(values?.neverExtractable)), .text(Self.yesOrNo(values?.local)),
            .text(arrival.map(KeysSection.stepText) ?? "–"),
            row.warnings.isEmpty ? .text(values == nil ? row.attributes.message ?? "–" : "none") : warnings,
        ]
    }

    private func writeKeysWithoutAttributes(_ unread: [KeySummary], to page: inout PageWriter) {
        guard !unread.isEmpty else { return }
        page.paragraph(
            "Of \(unread.count.grouped) keys the attributes were not read; nothing is known of them now:")
        page.table(
            ["Key", "Why"],
            unread, most: maximumRows, "keys", in: "the daemon's list"
        ) { key in
            [
                .code(key.publicKeyHash),
                .text(live.attributeFaults[key.publicKeyHash] ?? "The daemon's version does not read them."),
            ]
        }
    }

    private static func yesOrNo(_ flag: Bool?) -> String { flag.map { $0 ? "yes" : "no" } ?? "–" }

    /// Returns a sentence for each shortcoming of the key's attributes, and for each difference from the record or the
    /// ledger.
    ///
    /// - Parameter arrival: the key's arrival according to the record; nil if the export does not contain it.
    static func warnings(_ attributes: KeyAttributes, _ key: KeySummary, arrival: KeyHistory.Step?) -> [String] {
        guard let values = attributes.values else { return [] }
        var warnings = values.shortcomings
        // Without any reported attribute, there is nothing to compare with the record.
        guard values != KeyAttributes.Values(shortcomings: values.shortcomings) else { return warnings }
        switch arrival {
        case .generated where values.local != true:
            warnings.append(
                "Made in a token by the record; this token does not say that it made it (CKA_LOCAL). Some tokens never say so."
            )
            for (name, value) in [
                ("CKA_ALWAYS_SENSITIVE", values.alwaysSensitive), ("CKA_NEVER_EXTRACTABLE", values.neverExtractable),
            ] where value != true {
                warnings.append("Made in a token by the record; \(name) is \(value == false ? "false" : "not told").")
            }
        case .imported where values.local == true:
            warnings.append("Came from a file by the record; the token says that it made it (CKA_LOCAL).")
        default: break
        }
        let expected = key.algorithm == "EC" ? "P-256" : "RSA-2048"
        if let strength = values.strength, strength != expected {
            warnings.append("\(expected) by the ledger, \(strength) by the token.")
        }
        return warnings
    }
}
