public import AuditChain
import Foundation
import GRDB

extension SQLiteLedger {
    public func auditKeys() async throws(LedgerFailure) -> [StoredAuditKey] {
        try await read { [auditKeyRows] db in try auditKeyRows.all(db) }
    }

    public func planAuditKey(identifier: [UInt8]) async throws(LedgerFailure) {
        try await writer.write(
            { [auditKeyRows] db, _ in try auditKeyRows.plan(identifier, at: Date(), db) },
            readBack: { [auditKeyRows] _, db in try auditKeyRows.find(identifier, db) == nil ? nil : () })
    }

    @discardableResult
    public func confirmAuditKey(
        identifier: [UInt8], publicKey: [UInt8], recording record: AuditRecord?
    ) async throws(LedgerFailure) -> Int? {
        try await writer.write(
            { [auditKeyRows] db, head in
                try auditKeyRows.confirm(identifier, publicKey, recording: record, &head, db)
            },
            readBack: { [auditKeyRows, chain] line, db in
                guard try auditKeyRows.find(identifier, db)?.publicKey == publicKey else { return nil }
                if let line, try !chain.holds(line, db) { return nil }
                return .some(line)
            })?.sequence
    }

    private var auditKeyRows: SQLiteAuditKeys { SQLiteAuditKeys(chain: chain) }
}
