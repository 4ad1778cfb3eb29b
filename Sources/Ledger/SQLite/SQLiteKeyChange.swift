import AuditChain
import GRDB
import MerchantKeys

/// A key's record and the audit record of its change, written together.
struct SQLiteKeyChange: Sendable {
    let keys: SQLiteKeyRecords
    let chain: SQLiteChain
    let key: KeyRecord
    let record: AuditRecord?

    struct Made: Sendable {
        let stored: KeyRecord
        let line: AuditLine?
    }

    func perform(_ head: inout ChainHead, _ db: Database) throws -> Made {
        let known = try keys.find(key.publicKeyHash, db)
        let next = try key.replacing(known)
        try keys.put(next, db)
        guard var record else { return Made(stored: next, line: nil) }
        if case .keyStateChange(var change) = record.event {
            // What the state really was, not what the caller saw a moment ago.
            change.from = known.flatMap { AuditKeyState(rawValue: $0.state.rawValue) }
            record.event = .keyStateChange(change)
        }
        return Made(stored: next, line: try chain.append(record, to: &head, db))
    }

    /// What was written, if it stands after a commit that was not acknowledged.
    @Sendable func stands(_ made: Made, _ db: Database) throws -> Made? {
        if let line = made.line { return try chain.holds(line, db) ? made : nil }
        guard let stored = try keys.find(made.stored.publicKeyHash, db), stored.state == made.stored.state,
            stored.cutOff.map(StoredTime.milliseconds) == made.stored.cutOff.map(StoredTime.milliseconds)
        else { return nil }
        return made
    }
}
