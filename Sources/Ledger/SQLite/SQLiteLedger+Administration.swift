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
        var total = 0
        // A look first: mostly there is nothing to write.
        while try await !read({ [approvalRows] db in try approvalRows.overdue(now: now, db) }).isEmpty {
            total += try await expireOverdue(now: now)
        }
        return total
    }

    private func expireOverdue(now: Date) async throws(LedgerFailure) -> Int {
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

    public func forgetApprovals(expiredBefore time: Date, keeping count: Int) async throws(LedgerFailure) -> Int {
        let surplus = try await read { [approvalRows] db in
            try approvalRows.surplus(expiredBefore: time, keeping: count, db)
        }
        guard surplus > 0 else { return 0 }
        return try await writer.write(
            { [approvalRows] db, _ in try approvalRows.forget(expiredBefore: time, keeping: count, db) },
            readBack: { _, _ in nil })
    }

    private var approvalRows: SQLiteApprovals { SQLiteApprovals(node: node) }
}
