public import AuditChain
public import Foundation
import GRDB

extension SQLiteLedger {
    public func apply(_ change: AdministrativeChange) async throws(LedgerFailure) -> [Int] {
        let administration = SQLiteAdministration(keys: keys, chain: chain, change: change)
        return try await writer.write(
            { db, head in try administration.perform(&head, db) }, readBack: administration.stands
        ).map(\.sequence)
    }

    public func approvals(limit: Int) async throws(LedgerFailure) -> [Approval] {
        try await read { [approvalRows] db in try approvalRows.all(limit: limit, db) }
    }

    public func approval(_ identifier: ApprovalIdentifier) async throws(LedgerFailure) -> Approval? {
        try await read { [approvalRows] db in try approvalRows.find(identifier, db) }
    }

    public func expireApprovals(now: Date) async throws(LedgerFailure) -> Int {
        try await writer.write(
            { [approvalRows, chain] db, head in
                let overdue = try approvalRows.overdue(now: now, db)
                for approval in overdue {
                    try approvalRows.mark(approval.identifier, .expired, db)
                    let record = AuditRecord(
                        time: AuditTime(now),
                        event: .approvalDecision(approval: approval.identifier, decision: .expire, reason: nil),
                        outcome: .refused(.approvalInvalid),
                        publicKeyHash: approval.key.flatMap { AuditDigest(bytes: $0.bytes) })
                    _ = try chain.append(record, to: &head, db)
                }
                return overdue.count
            },
            // Done or not: the next look finds what is left.
            readBack: { _, _ in nil })
    }

    private var approvalRows: SQLiteApprovals { SQLiteApprovals(node: node) }
}
