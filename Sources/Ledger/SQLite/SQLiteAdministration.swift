import AuditChain
import Foundation
import GRDB
import MerchantKeys

/// An administrative change inside the batch's transaction: the approval's step, the key's record and the records of
/// both together.
struct SQLiteAdministration: Sendable {
    let keys: SQLiteKeyRecords
    let chain: SQLiteChain
    let change: AdministrativeChange

    private var approvals: SQLiteApprovals { SQLiteApprovals(node: chain.node.name) }

    func perform(_ head: inout ChainHead, _ db: Database) throws -> [AuditLine] {
        let known = try change.key.flatMap { try keys.find($0.publicKeyHash, db) }
        if let step = change.approval {
            try approvals.take(step, at: change.at, state: { try keys.find($0, db)?.state }, db)
        }
        if let key = change.key { try put(key, over: known, change.precondition, db) }
        var lines = try change.records.map { try append($0, before: known, &head, db) }
        for further in change.furtherKeys {
            let known = try keys.find(further.key.publicKeyHash, db)
            try put(further.key, over: known, further.precondition, db)
            lines.append(try append(further.record, before: known, &head, db))
        }
        if let auditKey = change.auditKey, let publicKey = auditKey.publicKey {
            _ = try SQLiteAuditKeys(chain: chain).confirm(auditKey.identifier, publicKey, recording: nil, &head, db)
        }
        if let clock = change.clock, let line = lines.last {
            try SQLiteTimes(node: chain.node.name).accept(clock, at: line.sequence, db)
        }
        return lines
    }

    private func put(_ key: KeyRecord, over known: KeyRecord?, _ precondition: KeyPrecondition, _ db: Database) throws {
        switch precondition {
        case .any: break
        case .absent:
            guard known == nil else { throw KeyRecordConflict.changedMeanwhile }
        case .state(let before):
            guard known?.state == before else { throw KeyRecordConflict.changedMeanwhile }
        }
        try keys.put(try key.replacing(known), db)
    }

    private func append(
        _ record: AuditRecord, before known: KeyRecord?, _ head: inout ChainHead, _ db: Database
    ) throws -> AuditLine {
        var record = record
        if case .keyStateChange(var stateChange) = record.event {
            // What the state really was, not what the caller saw a moment ago.
            stateChange.from = known.flatMap { AuditKeyState(rawValue: $0.state.rawValue) }
            record.event = .keyStateChange(stateChange)
        }
        return try chain.append(record, to: &head, db)
    }

    /// What was written, if it stands after a commit that was not acknowledged. Its records stand or fall with it.
    @Sendable func stands(_ lines: [AuditLine], _ db: Database) throws -> [AuditLine]? {
        if let last = lines.last { return try chain.holds(last, db) ? lines : nil }
        guard let key = change.key, let stored = try keys.find(key.publicKeyHash, db), stored.state == key.state,
            stored.cutOff.map(StoredTime.milliseconds) == key.cutOff.map(StoredTime.milliseconds)
        else { return nil }
        return lines
    }
}
