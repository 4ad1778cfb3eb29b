import AccessControl
package import AuditChain
package import DatabaseKit
package import Foundation
import KeyTypes
package import MerchantKeys
package import PaymentToken

// Conversions from rows. A value that this version does not know throws an error; it is never replaced by a default.

/// The key's state and use, which determine releases and signatures.
package enum KeyEligibilityRow {
    package static func find(_ hash: PublicKeyHash, _ queries: any StoredQueries) throws -> KeyEligibility? {
        try queries.run("SELECT \(columns) FROM merchant_key WHERE public_key_hash = $1", [.bytes(hash.bytes)])
            .first.map { try read($0).1 }
    }

    package static let columns = "public_key_hash, state, cut_off, key_use"

    package static func all(_ rows: [any StoredRow]) throws -> [PublicKeyHash: KeyEligibility] {
        try Dictionary(rows.map(read)) { first, _ in first }
    }

    package static func read(_ row: any StoredRow) throws -> (PublicKeyHash, KeyEligibility) {
        guard let state = KeyState(rawValue: try row.text(1)), let use = KeyUse(name: try row.text(3)) else {
            throw KeyRecordRow.unknown
        }
        return (try row.publicKeyHash(0), KeyEligibility(use: use, state: state, cutOff: try row.dateIfAny(2)))
    }
}

package enum ClaimRow {
    package static func find(_ transaction: TransactionIdentifier, _ queries: any StoredQueries) throws -> Claim? {
        try queries.run("SELECT \(columns) FROM claim WHERE transaction_id = $1", [.bytes(transaction.bytes)])
            .first.map { try read($0).1 }
    }

    /// Reads the time of the newest claim of Apple Pay since `$1`, by which the clock is confirmed: Apple's signing time
    /// was within the window around it. A Google Pay message is accepted for its whole lifetime, so its claim confirms no
    /// clock. Without the limit, a ledger with few claims of Apple Pay would be read from its end to its beginning.
    package static let newestOfApplePay = """
        SELECT claimed_at FROM claim WHERE message_claim IS NULL AND claimed_at >= $1 ORDER BY claimed_at DESC LIMIT 1
        """

    package static let oldest = "SELECT min(claimed_at) FROM claim"

    package static let columns =
        "transaction_id, caller, reference_digest, content_digest, attempt, repeat_attempt, claimed_at, repeats"

    package static func read(_ row: any StoredRow) throws -> (TransactionIdentifier, Claim) {
        (
            try row.transactionIdentifier(0),
            Claim(
                caller: try row.text(1), referenceDigest: try row.bytesIfAny(2), contentDigest: try row.bytes(3),
                attempt: try row.bytes(4), repeatAttempt: try row.bytesIfAny(5), claimedAt: try row.integer(6),
                repeats: Int(try row.integer(7)))
        )
    }
}

package enum KeyRecordRow {
    package static func all(_ queries: any StoredQueries) throws -> [KeyRecord] {
        try queries.run("SELECT \(columns) FROM merchant_key ORDER BY public_key_hash", []).map(read)
    }

    package static func find(_ hash: PublicKeyHash, _ queries: any StoredQueries) throws -> KeyRecord? {
        try queries.run("SELECT \(columns) FROM merchant_key WHERE public_key_hash = $1", [.bytes(hash.bytes)])
            .first.map(read)
    }

    package static let columns =
        "public_key_hash, merchant_identifier, algorithm, state, cut_off, origin, created_at, key_use"

    package static let unknown = LedgerFailure.unavailable(
        reason: "A key's record has a value that this version does not know.")

    package static func read(_ row: any StoredRow) throws -> KeyRecord {
        guard let algorithm = KeyAlgorithm(name: try row.text(2)), let state = KeyState(rawValue: try row.text(3)),
            let origin = KeyRecord.Origin(rawValue: try row.text(5)), let use = KeyUse(name: try row.text(7))
        else { throw unknown }
        return KeyRecord(
            publicKeyHash: try row.publicKeyHash(0), merchantIdentifier: try row.text(1), algorithm: algorithm,
            use: use, state: state, cutOff: try row.dateIfAny(4), createdAt: try row.date(6), origin: origin)
    }

    package static func values(_ key: KeyRecord) -> [StoredValue] {
        [
            .bytes(key.publicKeyHash.bytes), .text(key.merchantIdentifier), .text(key.algorithm.name),
            .text(key.state.rawValue), .time(key.cutOff), .text(key.origin.rawValue),
            .time(key.createdAt), .text(key.use.name),
        ]
    }

    /// The statement that adds a key, or changes a known key's state and cut-off. Its parameters are those of
    /// ``values(_:)``, followed by the node's name.
    package static let put = """
        INSERT INTO merchant_key (\(columns), node) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (public_key_hash) DO UPDATE SET state = excluded.state, cut_off = excluded.cut_off
        """
}

package enum ApprovalRow {
    package static func all(limit: Int, _ queries: any StoredQueries) throws -> [Approval] {
        try queries.run(
            """
            SELECT \(columns) FROM approval
            ORDER BY status IN ('pending', 'approved') DESC, requested_at DESC, identifier LIMIT $1
            """, [.integer(limit)]
        ).map(read)
    }

    /// - Parameter lock: the clause that locks the row (``LedgerTransaction/rowLock``); empty outside a transaction.
    package static func find(
        _ identifier: ApprovalIdentifier, lock: String = "", _ queries: any StoredQueries
    ) throws -> Approval? {
        try queries.run(
            "SELECT \(columns) FROM approval WHERE identifier = $1 \(lock)", [.bytes(identifier.bytes)]
        ).first.map(read)
    }

    /// Returns at most 100 open approvals that have expired.
    static func overdue(at now: Date, lock: String = "", _ queries: any StoredQueries) throws -> [Approval] {
        try queries.run(
            """
            SELECT \(columns) FROM approval
            WHERE status IN ('pending', 'approved') AND expires_at <= $1 ORDER BY expires_at, identifier LIMIT 100 \(lock)
            """, [.time(now)]
        ).map(read)
    }

    /// Returns true if an ended approval's time to decide passed before `time`, or if more than `count` approvals have
    /// ended.
    static func hasSurplus(expiredBefore time: Date, keeping count: Int, _ queries: any StoredQueries) throws -> Bool {
        let row = try queries.run(
            """
            SELECT count(*) FILTER (WHERE expires_at < $1), count(*) FROM approval
            WHERE status IN ('done', 'rejected', 'withdrawn', 'expired')
            """, [.time(time)]
        ).first
        return try row.map { try $0.integer(0) > 0 || $0.integer(1) > Int64(count) } ?? false
    }

    /// The columns of an approval's row. `requester` is the requester's login uid, or the uid if no login uid is set.
    package static let columns = """
        identifier, operation, parameters, public_key_hash, key_state, requester, requester_name, requester_uid,
        requester_gid, requester_groups, reason, requested_at, expires_at, status, decided_by, decided_at, node,
        requester_account, requester_login_account
        """

    /// The placeholders for ``values(_:_:)`` in an INSERT statement.
    package static let places = (1...19).map { "$\($0)" }.joined(separator: ", ")

    package static func values(_ approval: Approval, _ node: AuditNode) -> [StoredValue] {
        let requester = approval.requester
        return [
            .bytes(approval.identifier.bytes), .text(approval.operation.rawValue), .bytes(approval.parameters.bytes),
            .bytes(approval.key?.bytes), .text(approval.keyState?.rawValue),
            .integer(Int64(requester.person.loginUID ?? requester.uid)), .text(requester.name),
            .integer(Int64(requester.uid)), .integer(Int64(requester.gid)),
            .text(requester.groups.map(String.init).joined(separator: ",")), .text(approval.reason.text),
            .time(approval.requestedAt), .time(approval.expires), .text(approval.status.rawValue),
            .integer(approval.decidedBy.map { Int64($0) }), .time(approval.decidedAt), .text(node.name),
            .text(requester.person.account), .text(requester.person.loginAccount),
        ]
    }

    package static func read(_ row: any StoredRow) throws -> Approval {
        guard let identifier = ApprovalIdentifier(bytes: try row.bytes(0)),
            let operation = ApprovalOperation(rawValue: try row.text(1)),
            let status = Approval.Status(rawValue: try row.text(13))
        else { throw LedgerFailure.unavailable(reason: "An approval has a value that this version does not know.") }
        let decider = try row.integerIfAny(14)
        var approval = Approval(
            identifier: identifier, operation: operation, parameters: try row.digest(2),
            key: try row.bytesIfAny(3).flatMap { PublicKeyHash(bytes: $0) },
            keyState: try row.textIfAny(4).flatMap(KeyState.init),
            requester: ApprovalRequester(
                person: PersonIdentities(
                    uid: try row.number(7), loginUID: try row.number(5), account: try row.textIfAny(17),
                    loginAccount: try row.textIfAny(18)), name: try row.text(6), gid: try row.number(8),
                groups: try row.text(9).split(separator: ",").compactMap { UInt32($0) }),
            reason: AuditReason(try row.text(10)), requestedAt: try row.date(11), expires: try row.date(12),
            status: status, decidedBy: decider.flatMap { UInt32(exactly: $0) }, decidedAt: try row.dateIfAny(15))
        approval.node = try row.text(16)
        return approval
    }
}

extension StoredValue {
    /// Returns the time in milliseconds (``DatabaseKit/StoredTime``); NULL for nil.
    package static func time(_ date: Date?) -> StoredValue { .integer(date.map(StoredTime.milliseconds)) }
}

extension StoredRow {
    /// Reads a digest of 32 bytes.
    package func digest(_ column: Int) throws -> AuditDigest {
        guard let digest = AuditDigest(bytes: try bytes(column)) else {
            throw LedgerFailure.unavailable(reason: "A row has a digest that is not 32 bytes long.")
        }
        return digest
    }

    package func publicKeyHash(_ column: Int) throws -> PublicKeyHash {
        guard let hash = PublicKeyHash(bytes: try bytes(column)) else {
            throw LedgerFailure.unavailable(reason: "A row has a publicKeyHash that is not 32 bytes long.")
        }
        return hash
    }

    func transactionIdentifier(_ column: Int) throws -> TransactionIdentifier {
        guard let identifier = TransactionIdentifier(bytes: try bytes(column)) else {
            throw LedgerFailure.unavailable(reason: "A row has a transaction identifier that is not 32 bytes long.")
        }
        return identifier
    }

    package func date(_ column: Int) throws -> Date { StoredTime.date(try integer(column)) }

    package func dateIfAny(_ column: Int) throws -> Date? { try integerIfAny(column).map(StoredTime.date) }

    package func number(_ column: Int) throws -> UInt32 {
        guard let number = UInt32(exactly: try integer(column)) else {
            throw LedgerFailure.unavailable(reason: "A row has an invalid account number.")
        }
        return number
    }
}
