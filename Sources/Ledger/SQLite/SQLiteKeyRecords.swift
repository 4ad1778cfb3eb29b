import Foundation
import GRDB
import MerchantKeys
import PaymentToken
import WorkerProtocol

/// The key records' statements.
struct SQLiteKeyRecords {
    let node: String

    func all(_ db: Database) throws -> [KeyRecord] {
        try Row.fetchAll(db, sql: "SELECT \(Self.columns) FROM merchant_key ORDER BY public_key_hash").map(read)
    }

    func find(_ hash: PublicKeyHash, _ db: Database) throws -> KeyRecord? {
        try Row.fetchOne(
            db, sql: "SELECT \(Self.columns) FROM merchant_key WHERE public_key_hash = ?",
            arguments: [hash.bytes.blob]
        ).map(read)
    }

    func put(_ key: KeyRecord, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO merchant_key (\(Self.columns), node) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (public_key_hash) DO UPDATE SET state = excluded.state, cut_off = excluded.cut_off
                """,
            arguments: [
                key.publicKeyHash.bytes.blob, key.merchantIdentifier, key.algorithm.name, key.state.rawValue,
                key.cutOff.map(StoredTime.milliseconds), key.origin.rawValue, StoredTime.milliseconds(key.createdAt),
                node,
            ])
    }

    private static let columns =
        "public_key_hash, merchant_identifier, algorithm, state, cut_off, origin, created_at"

    private func read(_ row: Row) throws -> KeyRecord {
        let hash: Data = try row.value("public_key_hash")
        let cutOff: Int64? = try row.value("cut_off")
        guard let publicKeyHash = PublicKeyHash(bytes: hash),
            let algorithm = KeyAlgorithm(name: try row.value("algorithm")),
            let state = KeyState(rawValue: try row.value("state")),
            let origin = KeyRecord.Origin(rawValue: try row.value("origin"))
        else {
            throw LedgerFailure.unavailable(reason: "A key's record holds a value that this version does not know.")
        }
        return KeyRecord(
            publicKeyHash: publicKeyHash, merchantIdentifier: try row.value("merchant_identifier"),
            algorithm: algorithm,
            state: state, cutOff: cutOff.map(StoredTime.date), createdAt: StoredTime.date(try row.value("created_at")),
            origin: origin)
    }
}
