import AuditChain
import StrictJSON

/// Records as people read them.
enum AuditRecordTable {
    static func of(_ entries: [AuditEntry]) -> Table {
        var table = Table(columns: [
            "TIME", "NODE", "SEQUENCE", "EVENT", "OUTCOME", "CALLER", "MERCHANT", "KEY", "TRANSACTION", "DETAILS",
        ])
        for entry in entries {
            table.add([
                entry.time.text, entry.node.name, String(entry.sequence), entry.event, entry.outcome,
                entry.caller.map { $0.name?.text ?? String($0.uid) } ?? "-", entry.merchant ?? "-",
                // As much as `--key` and `key show` take.
                entry.publicKeyHash.map { String($0.hex.prefix(8)) } ?? "-", entry.transactionId?.hex ?? "-",
                details(entry),
            ])
        }
        return table
    }

    /// The event's own members. A reference is a hash that says nothing to a person.
    private static func details(_ entry: AuditEntry) -> String {
        entry.details.members.filter { $0.name != "reference" }
            .flatMap { member in Flattening.pairs(member.value, name: member.name) }
            .map { "\($0.0)=\($0.1)" }.joined(separator: " ")
    }
}
