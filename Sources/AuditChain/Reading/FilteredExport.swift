internal import StrictJSON

/// Which records of an export were chosen by more than their time, as its first line says.
///
/// A chain is verified from record to record, so a selection with gaps cannot be: neither that its records are as they
/// were written, nor that they are all. Each of its lines stands in a whole export of the same node, byte for byte; who
/// needs proof verifies that and looks the lines up in it.
public enum FilteredExport {
    /// `{"filter":{"node":…,"through":…, …the conditions…},"proves":"…"}`, without a line feed.
    ///
    /// - Parameter last: the sequence up to which records were looked at.
    public static func firstLine(_ filter: AuditFilter, node: AuditNode, through last: Int) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("filter")
        writer.beginObject()
        writer.member("node")
        writer.string(node.name)
        writer.member("through")
        writer.number(last)
        for (name, value) in filter.conditions {
            writer.member(name)
            writer.string(value)
        }
        writer.endObject()
        writer.member("proves")
        writer.string(proves)
        writer.endObject()
        return writer.bytes
    }

    static let proves =
        "nothing by itself: records that do not match are left out, so the hashes cannot be followed. Every line stands "
        + "byte for byte in an export without conditions; verify that one, and look these lines up in it."

    private static let beginning = Array("{\"filter\":{".utf8)

    static func isFirstLine(_ line: [UInt8]) -> Bool { line.starts(with: beginning) }
}

extension AuditFilter {
    /// Whether it chooses by more than the time, so that what it leaves out may stand between two records.
    public var leavesGaps: Bool {
        key != nil || merchant != nil || caller != nil || outcome != nil || transaction != nil
    }

    /// The conditions that are set but the limit, by their options' names.
    var conditions: [(name: String, value: String)] {
        [
            ("since", since?.text), ("until", until?.text), ("key", key?.hex), ("merchant", merchant?.text),
            ("caller", caller?.text), ("outcome", outcome?.text), ("transaction", transaction?.hex),
        ].compactMap { name, value in value.map { (name, $0) } }
    }
}
