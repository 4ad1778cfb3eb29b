import AuditChain
import DatabaseKit
import Foundation
import GRDB
import Glibc
import Ledger
import MerchantKeys
import PostgreSQLLedger
import SQLiteFiles
import SQLiteLedger

/// A stopped host's file that is being moved into a database. No other process uses the file in the meantime.
final class MovedFile {
    let path: String
    let node: AuditNode
    private(set) var mark: SQLiteMoveMark?
    /// True if the file was restored from a copy and the restore is not accepted.
    let awaitsAcceptance: Bool
    private let lock: DatabaseFileLock
    private let reader: DatabaseQueue

    private var rows: RecordStatements { RecordStatements(node: node) }
    private static let busyTimeout: TimeInterval = 2

    /// Opens the file; blocks. Changes nothing in it.
    init(path: String) throws(LedgerMoveError) {
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
            attributes[.type] as? FileAttributeType != .typeDirectory
        else { throw .noFile(path: path) }
        // Only the daemon's account may open the file, and files that this program creates next to it must belong to
        // that account as well.
        guard (attributes[.ownerAccountID] as? NSNumber)?.uint32Value == geteuid() else {
            throw .anotherAccount(path: path)
        }
        do throws(DatabaseFileError) {
            lock = try PrivateDatabaseFile(path: path).prepare()
        } catch {
            throw .file(LedgerOpeningError(error))
        }
        do {
            reader = try DurableSQLite.reading(path, label: "ledger.move", busyTimeout: Self.busyTimeout)
            (node, mark, awaitsAcceptance) = try reader.read { db in
                let (node, mark) = try Self.identify(db, path: path)
                return (node, mark, try SQLiteRestoreMark.read(db) != nil)
            }
        } catch {
            lock.release()
            throw Self.failure(error, path: path)
        }
        self.path = path
    }

    deinit { lock.release() }

    private static func identify(_ db: Database, path: String) throws -> (AuditNode, SQLiteMoveMark?) {
        guard try db.tableExists("ledger_meta") else { throw LedgerOpeningError.notALedger(path: path) }
        if let mark = try SQLiteMoveMark.read(db) {
            guard let node = try SQLiteLedgerMeta.value("node", db).flatMap(AuditNode.init) else {
                throw LedgerOpeningError.notALedger(path: path)
            }
            return (node, mark)
        }
        guard let (version, node) = try SQLiteSchema(path: path, node: nil).existingLedger(db) else {
            throw LedgerOpeningError.notALedger(path: path)
        }
        guard version == SQLiteTables.version else {
            throw LedgerMoveError.olderFile(path: path, found: version, known: SQLiteTables.version)
        }
        return (node, nil)
    }

    private static func failure(_ error: any Error, path: String) -> LedgerMoveError {
        switch error {
        case let error as LedgerMoveError: error
        case let error as LedgerOpeningError: .file(error)
        case let error as DatabaseFileError: .file(LedgerOpeningError(error))
        case let error as DatabaseError where error.resultCode == .SQLITE_NOTADB: .file(.notALedger(path: path))
        default: .file(.cannotOpen(path: path, reason: LedgerFailure(error).description))
        }
    }

    /// Writes or removes the mark; durable when it returns.
    func put(_ mark: SQLiteMoveMark?) throws {
        let writer = try DurableSQLite.writing(
            path, label: "ledger.move", checkpointPages: WALCheckpointing.maximumPages, busyTimeout: Self.busyTimeout)
        try writer.writeWithoutTransaction { db in
            try DurableSQLite.requireDurability(db, path: path)
            try db.durably { if let mark { try mark.write(db) } else { try SQLiteMoveMark.remove(db) } }
        }
        try writer.close()
        self.mark = mark
    }

    func read<Value>(_ body: (Database) throws -> Value) throws -> Value { try reader.read(body) }

    func counts() throws -> (records: Int, checkpoints: Int, claims: Int) {
        try read { db in
            func count(_ table: String) throws -> Int { Int(try db.number("SELECT count(*) FROM \(table)") ?? 0) }
            return (try count("audit_record"), try count("checkpoint"), try count("claim"))
        }
    }

    func head() throws -> ChainHead { try read(rows.head) }

    func hash(of sequence: Int64) throws -> [UInt8]? {
        try read { db in try rows.hash(of: Int(sequence), db)?.bytes }
    }

    func keys() throws -> [KeyRecord] { try read(KeyRecordRow.all) }

    func approvals() throws -> [Approval] { try read { db in try ApprovalRow.all(limit: .max, db) } }

    /// The merchant of an open renewal; nil if none is open.
    func merchantOfOpenRenewal() throws -> String? {
        try read { db in
            try db.run("SELECT merchant_identifier FROM renewal WHERE state = 'open' LIMIT 1", []).first?.text(0)
        }
    }

    /// The renewals that have ended. Their attempts say if a key may have another certificate at Apple.
    func renewals() throws -> [StoredRenewal] { try read { db in try RenewalRow.all("state <> 'open'", [], db) } }

    /// Returns the ordinals, identifiers, public keys, planning times and HSM tokens of the audit keys.
    func auditKeys() throws -> [any StoredRow] {
        try read { db in
            try db.run(
                """
                SELECT ordinal, identifier, public_key, planned_at, hsm_token FROM audit_key
                WHERE node = $1 ORDER BY ordinal
                """, [.text(node.name)])
        }
    }

    /// Returns the archives, sealed or not, with the sequences of their records; oldest first.
    func archives() throws -> [(archive: RecordArchive, recorded: Int64)] {
        try read { db in
            try db.run(
                "SELECT first, last, hash, digest, size, recorded FROM archive WHERE node = $1 ORDER BY last",
                [.text(node.name)]
            ).map { (try RecordStatements.archive($0), try $0.integer(5)) }
        }
    }

    func times() throws -> MovedTimes {
        let times = SQLiteTimes(node: node.name)
        return try read { db in
            MovedTimes(
                limits: try times.limits(db), signedAhead: try times.signedAhead(db),
                clockAcceptedAfter: try times.clockAcceptedAfter(db))
        }
    }

    /// Returns records after `sequence`. Of the archived records it returns only the last one, if `sequence` precedes
    /// it.
    func records(after sequence: Int64, limit: Int) throws -> [MovedRecord] {
        try read { db in
            let sequence = max(sequence, Int64(try rows.lastArchive(db)?.last ?? 0) - 1)
            return try db.run(
                """
                SELECT sequence, time, event, outcome, caller, caller_uid, merchant, public_key_hash, transaction_id, hash,
                    line
                FROM audit_record WHERE node = $1 AND sequence > $2 ORDER BY sequence LIMIT $3
                """, [.text(node.name), .integer(sequence), .integer(limit)]
            ).map(MovedRecord.init)
        }
    }

    /// Returns the audit checkpoints of these records.
    func checkpoints(_ sequences: ClosedRange<Int64>, limit: Int = .max) throws -> [MovedCheckpoint] {
        try read { db in
            let base = Int64(try rows.lastArchive(db)?.last ?? 0)
            let first = min(max(sequences.lowerBound, base), sequences.upperBound)
            return try db.run(
                """
                SELECT sequence, time, line FROM checkpoint
                WHERE node = $1 AND sequence BETWEEN $2 AND $3 ORDER BY sequence LIMIT $4
                """, [.text(node.name), .integer(first), .integer(sequences.upperBound), .integer(limit)]
            ).map { row in
                MovedCheckpoint(sequence: try row.integer(0), time: try row.integer(1), line: try row.bytes(2))
            }
        }
    }

    /// Returns claims ordered by transaction, the first column. The other columns are as in
    /// ``MoveDestination/insert(claims:of:)``.
    func claims(after transaction: [UInt8], limit: Int) throws -> [any StoredRow] {
        try read { db in
            try db.run(
                """
                SELECT transaction_id, public_key_hash, caller, reference_digest, content_digest, attempt, claimed_at, repeats,
                    repeat_attempt, repeated_at, message_claim
                FROM claim WHERE transaction_id > $1 ORDER BY transaction_id LIMIT $2
                """, [.bytes(transaction), .integer(limit)])
        }
    }

    /// Verifies the whole chain with the audit keys that the file itself names. It checks every record's hash, every
    /// audit checkpoint's signature, and that the columns for searching match their lines. Records after the last audit
    /// checkpoint are verified by hash only, which any program can compute.
    ///
    /// - Parameters:
    ///   - reading: called with each record, in order.
    ///   - reached: called with the number of records verified so far.
    /// - Returns: the number of records after the last audit checkpoint.
    @discardableResult
    func verify(
        page: Int, reading: (AuditEntry) -> Void = { _ in }, reached: (Int) -> Void = { _ in }
    ) throws -> Int {
        let points = try auditKeys().compactMap { try $0.bytesIfAny(2).flatMap(CheckpointKey.init(stored:)) }
        var verifier = ChainVerifier(keys: CheckpointKeys(points), beginning: .afterArchive)
        let others = try read { db in
            try db.run("SELECT sequence FROM audit_record WHERE node < $1 OR node > $1 LIMIT 1", [.text(node.name)])
        }
        guard others.isEmpty else {
            throw LedgerMoveError.brokenChain(path: path, fault: "It has records of another node than \(node.name).")
        }
        // If the columns differ from the line, the row was changed, and searches would find the record under wrong
        // values.
        func entry(_ record: MovedRecord) throws -> AuditEntry {
            guard let entry = try? AuditEntry(line: record.line), record.agrees(with: entry, of: node) else {
                throw LedgerMoveError.brokenChain(
                    path: path, fault: "The columns of record \(record.sequence) do not match its line.")
            }
            return entry
        }
        // After archiving, the chain begins with the audit checkpoint of the last archived record, which is kept for
        // this purpose.
        let archives = try archives().map(\.archive)
        let base = try read(rows.lastArchive)
        var recorded: [RecordArchive] = []
        var last: Int64 = 0
        while case let records = try records(after: last, limit: page), let end = records.last?.sequence {
            // The page may begin with an audit checkpoint that seals the record before the first one.
            var checkpoints = try checkpoints((last == 0 ? 0 : last + 1)...end)[...]
            for record in records {
                if let base, record.sequence == base.last {
                    guard record.hash == base.hash.bytes, try entry(record).hash == base.hash else {
                        throw LedgerMoveError.brokenChain(
                            path: path, fault: "Record \(base.last) is not the record that the last archive ends with.")
                    }
                    continue
                }
                while let next = checkpoints.first, next.sequence < record.sequence {
                    verifier.consume(line: next.line)
                    checkpoints.removeFirst()
                }
                let entry = try entry(record)
                if let archive = RecordArchive(entry) { recorded.append(archive) }
                verifier.consume(line: record.line)
                reading(entry)
            }
            for checkpoint in checkpoints { verifier.consume(line: checkpoint.line) }
            last = end
            reached(verifier.records)
            if verifier.fault != nil { break }
        }
        let verdict = verifier.verdict()
        if case .broken(let fault) = verdict {
            throw LedgerMoveError.brokenChain(path: path, fault: "\(fault).")
        }
        // Only the last archive's record must be among the remaining records, since the records of earlier archives are
        // themselves archived.
        guard archives.allSatisfy({ $0.last < base?.last ?? 0 || recorded.contains($0) }) else {
            throw LedgerMoveError.brokenChain(
                path: path, fault: "Its list of archives does not match its records.")
        }
        let beyond = try read { db in
            try db.run(
                "SELECT sequence FROM checkpoint WHERE node <> $1 OR sequence > $2 LIMIT 1",
                [.text(node.name), .integer(last)])
        }
        guard beyond.isEmpty else {
            throw LedgerMoveError.brokenChain(
                path: path, fault: "A checkpoint seals a record after record \(last), which is the last one.")
        }
        guard case .unsealed(let ranges) = verdict else { return 0 }
        return ranges.map(\.unsealed).reduce(0, +)
    }
}

/// A row of `audit_record`, unchanged.
struct MovedRecord {
    let sequence: Int64
    let time: Int64
    let event: String
    let outcome: String
    let caller: String?
    let callerUID: Int64?
    let merchant: String?
    let publicKeyHash: [UInt8]?
    let transaction: [UInt8]?
    let hash: [UInt8]
    let line: [UInt8]

    fileprivate init(_ row: any StoredRow) throws {
        sequence = try row.integer(0)
        time = try row.integer(1)
        event = try row.text(2)
        outcome = try row.text(3)
        caller = try row.textIfAny(4)
        callerUID = try row.integerIfAny(5)
        merchant = try row.textIfAny(6)
        publicKeyHash = try row.bytesIfAny(7)
        transaction = try row.bytesIfAny(8)
        hash = try row.bytes(9)
        line = try row.bytes(10)
    }

    /// Returns true if the columns match the line.
    func agrees(with entry: AuditEntry, of node: AuditNode) -> Bool {
        entry.node == node && Int64(entry.sequence) == sequence && entry.hash.bytes == hash
            && entry.time.milliseconds == time && entry.event == event && entry.outcome == outcome
            && entry.caller?.name?.text == caller && entry.caller.map({ Int64($0.uid) }) == callerUID
            && entry.merchant == merchant && entry.publicKeyHash?.bytes == publicKeyHash
            && entry.transactionId?.bytes == transaction
    }
}

struct MovedCheckpoint {
    let sequence: Int64
    let time: Int64
    let line: [UInt8]
}

/// The times that the file records.
struct MovedTimes {
    let limits: ReleaseLimits
    let signedAhead: Int64
    let clockAcceptedAfter: Int64
}
