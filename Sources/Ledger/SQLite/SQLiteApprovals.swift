import AccessControl
import AuditChain
import Foundation
import GRDB
import MerchantKeys
import PaymentToken
import SQLiteFiles

/// The approvals' statements.
struct SQLiteApprovals {
    let node: String

    func all(limit: Int, _ db: Database) throws -> [Approval] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT \(Self.columns) FROM approval
                ORDER BY status IN ('pending', 'approved') DESC, requested_at DESC, identifier LIMIT ?
                """,
            arguments: [limit]
        ).map(read)
    }

    func find(_ identifier: ApprovalIdentifier, _ db: Database) throws -> Approval? {
        try Row.fetchOne(
            db, sql: "SELECT \(Self.columns) FROM approval WHERE identifier = ?",
            arguments: [identifier.bytes.blob]
        ).map(read)
    }

    func overdue(now: Date, _ db: Database) throws -> [Approval] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT \(Self.columns) FROM approval
                WHERE status IN ('pending', 'approved') AND expires_at <= ? ORDER BY expires_at LIMIT 100
                """,
            arguments: [StoredTime.milliseconds(now)]
        ).map(read)
    }

    /// What is open then, and would be later: none of it can be approved or used any more.
    func expire(at time: Date, _ db: Database) throws {
        try db.execute(
            sql: "UPDATE approval SET expires_at = min(expires_at, ?) WHERE status IN ('pending', 'approved')",
            arguments: [StoredTime.milliseconds(time)])
    }

    private static let ended = "status IN ('done', 'rejected', 'withdrawn', 'expired')"

    /// How many of those that have ended are too old, or beyond `count`.
    func surplus(expiredBefore time: Date, keeping count: Int, _ db: Database) throws -> Int {
        let (all, old) = (
            try endedCount("", [], db),
            try endedCount(
                "AND expires_at < ?", [StoredTime.milliseconds(time)], db)
        )
        return max(old, all - count)
    }

    /// Removes them, those first that were asked for first. The record has their requests and decisions for ever.
    func forget(expiredBefore time: Date, keeping count: Int, _ db: Database) throws -> Int {
        try db.execute(
            sql: "DELETE FROM approval WHERE \(Self.ended) AND expires_at < ?",
            arguments: [StoredTime.milliseconds(time)])
        let old = db.changesCount
        let beyond = try endedCount("", [], db) - count
        guard beyond > 0 else { return old }
        try db.execute(
            sql: """
                DELETE FROM approval WHERE identifier IN (
                    SELECT identifier FROM approval WHERE \(Self.ended) ORDER BY requested_at, identifier LIMIT ?)
                """,
            arguments: [beyond])
        return old + beyond
    }

    private func endedCount(_ condition: String, _ arguments: StatementArguments, _ db: Database) throws -> Int {
        try Int.fetchOne(
            db, sql: "SELECT count(*) FROM approval WHERE \(Self.ended) \(condition)", arguments: arguments) ?? 0
    }

    func openCount(of uid: UInt32, at now: Date, _ db: Database) throws -> Int {
        try Int.fetchOne(
            db,
            sql: """
                SELECT count(*) FROM approval
                WHERE requester_uid = ? AND status IN ('pending', 'approved') AND expires_at > ?
                """,
            arguments: [Int64(uid), StoredTime.milliseconds(now)]) ?? 0
    }

    func mark(_ identifier: ApprovalIdentifier, _ status: Approval.Status, _ db: Database) throws {
        try db.execute(
            sql: "UPDATE approval SET status = ? WHERE identifier = ?",
            arguments: [status.rawValue, identifier.bytes.blob])
    }

    func decide(
        _ identifier: ApprovalIdentifier, _ status: Approval.Status, by person: PersonIdentities, at now: Date,
        _ db: Database
    ) throws {
        try db.execute(
            sql: "UPDATE approval SET status = ?, decided_by = ?, decided_at = ? WHERE identifier = ?",
            arguments: [status.rawValue, Int64(person.uid), StoredTime.milliseconds(now), identifier.bytes.blob])
    }

    /// `requester` is the login uid, or the uid again where there is none other.
    private static let columns = """
        identifier, operation, parameters, public_key_hash, key_state, requester, requester_name, requester_uid,
        requester_gid, requester_groups, reason, requested_at, expires_at, status, decided_by, decided_at, node,
        requester_account, requester_login_account
        """

    func insert(_ approval: Approval, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO approval (\(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                approval.identifier.bytes.blob, approval.operation.rawValue, approval.parameters.bytes.blob,
                approval.key?.bytes.blob, approval.keyState?.rawValue,
                Int64(approval.requester.person.loginUID ?? approval.requester.uid),
                approval.requester.name, Int64(approval.requester.uid), Int64(approval.requester.gid),
                approval.requester.groups.map(String.init).joined(separator: ","), approval.reason.text,
                StoredTime.milliseconds(approval.requestedAt), StoredTime.milliseconds(approval.expires),
                approval.status.rawValue,
                approval.decidedBy.map { Int64($0) }, approval.decidedAt.map(StoredTime.milliseconds), node,
                approval.requester.person.account, approval.requester.person.loginAccount,
            ])
    }

    private func read(_ row: Row) throws -> Approval {
        let (identifier, key): (Data, Data?) = (try row.value("identifier"), try row.value("public_key_hash"))
        let state: String? = try row.value("key_state")
        let decider: Int64? = try row.value("decided_by")
        let decidedAt: Int64? = try row.value("decided_at")
        guard let identifier = ApprovalIdentifier(bytes: identifier),
            let operation = ApprovalOperation(rawValue: try row.value("operation")),
            let status = Approval.Status(rawValue: try row.value("status"))
        else {
            throw LedgerFailure.unavailable(reason: "An approval holds a value that this version does not know.")
        }
        var approval = Approval(
            identifier: identifier, operation: operation, parameters: try row.digest("parameters"),
            key: key.flatMap { PublicKeyHash(bytes: $0) }, keyState: state.flatMap(KeyState.init),
            requester: try requester(row), reason: AuditReason(try row.value("reason")),
            requestedAt: StoredTime.date(try row.value("requested_at")),
            expires: StoredTime.date(try row.value("expires_at")), status: status,
            decidedBy: decider.flatMap { UInt32(exactly: $0) }, decidedAt: decidedAt.map(StoredTime.date))
        approval.node = try row.value("node")
        return approval
    }

    private func requester(_ row: Row) throws -> ApprovalRequester {
        let groups: String = try row.value("requester_groups")
        let (loginUID, uid): (Int64, Int64) = (try row.value("requester"), try row.value("requester_uid"))
        let gid: Int64 = try row.value("requester_gid")
        guard let loginUID = UInt32(exactly: loginUID), let uid = UInt32(exactly: uid), let gid = UInt32(exactly: gid)
        else {
            throw LedgerFailure.unavailable(reason: "An approval's requester is none.")
        }
        return ApprovalRequester(
            person: PersonIdentities(
                uid: uid, loginUID: loginUID, account: try row.value("requester_account"),
                loginAccount: try row.value("requester_login_account")), name: try row.value("requester_name"),
            gid: gid,
            groups: groups.split(separator: ",").compactMap { UInt32($0) })
    }
}
