import AuditChain
import DatabaseKit
import Foundation
import PaymentToken

extension StoredValue {
    /// Milliseconds, ``DatabaseKit/StoredTime``.
    static func time(_ date: Date?) -> StoredValue { .integer(date.map(StoredTime.milliseconds)) }
}

extension StoredRow {
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
