import AuditChain
import GRDB

extension Database {
    /// Appends inside a transaction, to the head that was read there. The head moves only when the line is stored.
    func append(_ record: AuditRecord, to head: inout ChainHead) throws -> AuditLine {
        var next = head
        let line = next.append(record)
        try run(
            """
            INSERT INTO audit_record (node, sequence, time, event, outcome, caller, caller_uid, merchant,
                public_key_hash, transaction_id, hash, line)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
            """,
            [
                .text(line.node.name), .integer(line.sequence), .integer(record.time.milliseconds),
                .text(record.event.name.rawValue), .text(record.outcome.text), .text(record.caller?.name?.text),
                .integer(record.caller.map { Int64($0.uid) }), .text(record.merchant?.text),
                .bytes(record.publicKeyHash?.bytes), .bytes(record.transactionId?.bytes), .bytes(line.hash.bytes),
                .bytes(line.bytes),
            ])
        head = next
        return line
    }
}
