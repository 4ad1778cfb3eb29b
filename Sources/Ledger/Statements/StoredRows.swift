import AccessControl
import AuditChain
import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import PostgreSQLClient

// Rows as the rules know them. What a row holds that this version does not know is a fault of the ledger, never a default.

extension PostgreSQLRow {
    /// 32 bytes.
    func digest(_ column: Int) throws -> AuditDigest {
        guard let digest = AuditDigest(bytes: try bytes(column)) else {
            throw LedgerFailure.unavailable(reason: "A row holds a digest that is not of 32 bytes.")
        }
        return digest
    }

    func publicKeyHash(_ column: Int) throws -> PublicKeyHash {
        guard let hash = PublicKeyHash(bytes: try bytes(column)) else {
            throw LedgerFailure.unavailable(reason: "A row holds a publicKeyHash that is not of 32 bytes.")
        }
        return hash
    }

    func transactionIdentifier(_ column: Int) throws -> TransactionIdentifier {
        guard let identifier = TransactionIdentifier(bytes: try bytes(column)) else {
            throw LedgerFailure.unavailable(reason: "A row holds a transaction identifier that is not of 32 bytes.")
        }
        return identifier
    }

    func date(_ column: Int) throws -> Date { StoredTime.date(try integer(column)) }

    func dateIfAny(_ column: Int) throws -> Date? { try integerIfAny(column).map(StoredTime.date) }

    func number(_ column: Int) throws -> UInt32 {
        guard let number = UInt32(exactly: try integer(column)) else {
            throw LedgerFailure.unavailable(reason: "A row holds an account's number that is none.")
        }
        return number
    }
}

/// What decides whether a key may be used, as releases and signatures ask for it.
enum KeyStandingRow {
    static let columns = "public_key_hash, state, cut_off, key_use"

    static func read(_ row: PostgreSQLRow) throws -> (PublicKeyHash, KeyStanding) {
        guard let state = KeyState(rawValue: try row.text(1)), let use = KeyUse(name: try row.text(3)) else {
            throw KeyRecordRow.unknown
        }
        return (try row.publicKeyHash(0), KeyStanding(use: use, state: state, cutOff: try row.dateIfAny(2)))
    }
}

enum ClaimRow {
    static let columns =
        "transaction_id, caller, reference_digest, content_digest, attempt, repeat_attempt, claimed_at, repeats"

    static func read(_ row: PostgreSQLRow) throws -> (TransactionIdentifier, Claim) {
        (
            try row.transactionIdentifier(0),
            Claim(
                caller: try row.text(1), referenceDigest: try row.bytesIfAny(2), contentDigest: try row.bytes(3),
                attempt: try row.bytes(4), repeatAttempt: try row.bytesIfAny(5), claimedAt: try row.integer(6),
                repeats: Int(try row.integer(7)))
        )
    }
}

enum KeyRecordRow {
    static let columns =
        "public_key_hash, merchant_identifier, algorithm, state, cut_off, origin, created_at, key_use"

    static let unknown = LedgerFailure.unavailable(
        reason: "A key's record holds a value that this version does not know.")

    static func read(_ row: PostgreSQLRow) throws -> KeyRecord {
        guard let algorithm = KeyAlgorithm(name: try row.text(2)), let state = KeyState(rawValue: try row.text(3)),
            let origin = KeyRecord.Origin(rawValue: try row.text(5)), let use = KeyUse(name: try row.text(7))
        else { throw unknown }
        return KeyRecord(
            publicKeyHash: try row.publicKeyHash(0), merchantIdentifier: try row.text(1), algorithm: algorithm,
            use: use, state: state, cutOff: try row.dateIfAny(4), createdAt: try row.date(6), origin: origin)
    }

    static func values(_ key: KeyRecord) -> [PostgreSQLValue] {
        [
            .bytes(key.publicKeyHash.bytes), .text(key.merchantIdentifier), .text(key.algorithm.name),
            .text(key.state.rawValue), .integer(key.cutOff.map(StoredTime.milliseconds)), .text(key.origin.rawValue),
            .integer(StoredTime.milliseconds(key.createdAt)), .text(key.use.name),
        ]
    }

    /// Adds a key of a node, or changes a known one's state and cut-off; ``values(_:)`` and the node's name go with it.
    static let put = """
        INSERT INTO merchant_key (\(columns), node) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (public_key_hash) DO UPDATE SET state = excluded.state, cut_off = excluded.cut_off
        """
}

enum ApprovalRow {
    /// `requester` is the login uid, or the uid again where there is none other.
    static let columns = """
        identifier, operation, parameters, public_key_hash, key_state, requester, requester_name, requester_uid,
        requester_gid, requester_groups, reason, requested_at, expires_at, status, decided_by, decided_at, node,
        requester_account, requester_login_account
        """

    /// For ``values(_:_:)``.
    static let places = (1...19).map { "$\($0)" }.joined(separator: ", ")

    static func values(_ approval: Approval, _ node: AuditNode) -> [PostgreSQLValue] {
        let requester = approval.requester
        return [
            .bytes(approval.identifier.bytes), .text(approval.operation.rawValue), .bytes(approval.parameters.bytes),
            .bytes(approval.key?.bytes), .text(approval.keyState?.rawValue),
            .integer(Int64(requester.person.loginUID ?? requester.uid)), .text(requester.name),
            .integer(Int64(requester.uid)), .integer(Int64(requester.gid)),
            .text(requester.groups.map(String.init).joined(separator: ",")), .text(approval.reason.text),
            .integer(StoredTime.milliseconds(approval.requestedAt)),
            .integer(StoredTime.milliseconds(approval.expires)), .text(approval.status.rawValue),
            .integer(approval.decidedBy.map { Int64($0) }), .integer(approval.decidedAt.map(StoredTime.milliseconds)),
            .text(node.name), .text(requester.person.account), .text(requester.person.loginAccount),
        ]
    }

    static func read(_ row: PostgreSQLRow) throws -> Approval {
        guard let identifier = ApprovalIdentifier(bytes: try row.bytes(0)),
            let operation = ApprovalOperation(rawValue: try row.text(1)),
            let status = Approval.Status(rawValue: try row.text(13))
        else { throw LedgerFailure.unavailable(reason: "An approval holds a value that this version does not know.") }
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
