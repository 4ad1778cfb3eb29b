internal import StrictJSON

/// Writes records as CSV (RFC 4180), for display in a spreadsheet. CSV has no hash chain and cannot be verified, as its
/// first line says.
///
/// A field that a spreadsheet could take for a formula is prefixed with an apostrophe. A value in the CSV may therefore
/// differ from the record's: a publicKeyHash, for example, may begin with `+`.
public enum AuditCSV {
    /// The header of a CSV in UTF-8: a line that states that CSV cannot be verified, and a line with the columns'
    /// names. Each line ends in CR LF.
    public static let header: [UInt8] =
        line(["# For reading only: CSV cannot be verified. Export JSON lines (--format jsonl) to verify the record."])
        + line(columns)

    /// The columns' names. The column `details` contains the event's other members as a JSON object.
    public static let columns = [
        "node", "sequence", "time", "event", "outcome", "caller", "uid", "gid", "loginUid", "pid", "comm", "merchant",
        "publicKeyHash", "transactionId", "protection", "token", "reference", "reason", "details", "hash",
    ]

    /// Returns ``header``. If ``AuditFilter/leavesGaps`` is true for the filter, the first line also states the
    /// filter's conditions.
    public static func header(_ filter: AuditFilter) -> [UInt8] {
        guard filter.leavesGaps else { return header }
        let conditions = filter.conditions.map { "\($0.name)=\($0.value)" }.joined(separator: " ")
        return line([
            "# For reading only: CSV cannot be verified. Export JSON lines (--format jsonl) without conditions to verify "
                + "the record. Only records with \(conditions); others are left out."
        ]) + line(columns)
    }

    /// Returns the CSV line of one record, ending in CR LF.
    public static func row(_ entry: AuditEntry) -> [UInt8] {
        let caller = entry.caller
        let details = entry.details.members.filter { $0.name != "reference" && $0.name != "reason" }
        let others = details.isEmpty ? nil : JSONObject(details).map { JSONValue.object($0).compact }
        return line([
            entry.node.name, String(entry.sequence), entry.time.text, entry.event, entry.outcome,
            caller?.name?.text ?? "", number(caller?.uid), number(caller?.gid), number(caller?.loginUID),
            number(caller?.pid), caller?.comm?.text ?? "", entry.merchant ?? "", entry.publicKeyHash?.base64 ?? "",
            entry.transactionId?.hex ?? "", entry.protection ?? "", entry.hsmToken ?? "",
            entry.details["reference"]?.stringValue ?? "", entry.details["reason"]?.stringValue ?? "",
            String(decoding: others ?? [], as: UTF8.self), entry.hash.hex,
        ])
    }

    private static func number(_ value: (some BinaryInteger)?) -> String {
        value.map { String($0) } ?? ""
    }

    private static func line(_ fields: [String]) -> [UInt8] {
        Array((fields.map(field).joined(separator: ",") + "\r\n").utf8)
    }

    /// Returns the text as a CSV field, quoted if it contains a character that spreadsheets of some locale use as a
    /// separator.
    static func field(_ text: String) -> String {
        var text = text
        if let first = text.unicodeScalars.first, formulaStarts.contains(first) { text = "'" + text }
        if text.utf8.allSatisfy(isPlain) { return text }
        return "\"" + text.replacing("\"", with: "\"\"") + "\""
    }

    /// The characters with which a spreadsheet's formula can begin, including their full-width forms.
    private static let formulaStarts: Set<Unicode.Scalar> = [
        "=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠",
    ]

    private static func isPlain(_ character: UInt8) -> Bool {
        AuditNode.allows(character) || ":/+".utf8.contains(character)
    }
}
