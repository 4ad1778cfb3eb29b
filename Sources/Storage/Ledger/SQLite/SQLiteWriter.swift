import AuditChain
import Foundation
import GRDB
import SQLiteFiles

/// The one writer: takes what waits, commits it as one transaction, and then answers each.
final class SQLiteWriter: Sendable {
    private let connections: SQLiteConnections
    private let place: DatabaseFilePlace
    private let records: RecordStatements
    private let faults: LedgerFaults
    private let observe: @Sendable (LedgerEvent) -> Void
    let writes: CommitQueue<SQLiteWrite>
    private let lastEnd = LastEnd()
    private let reads: TransactionReads

    init(
        connections: SQLiteConnections, place: DatabaseFilePlace, records: RecordStatements, capacity: Int,
        deadlines: LedgerDeadlines, reads: TransactionReads, faults: LedgerFaults,
        observe: @escaping @Sendable (LedgerEvent) -> Void
    ) {
        self.connections = connections
        self.place = place
        self.records = records
        self.faults = faults
        self.observe = observe
        self.reads = reads
        writes = CommitQueue(capacity: capacity, deadlines: deadlines, observe: observe) { record, fail in
            SQLiteWrite(recording: record, in: records, fail: fail)
        }
    }

    /// Waits for a place, the commit and its answer, at most until the deadline. A write whose deadline passes before
    /// the writer has come to it is not written.
    ///
    /// - Parameters:
    ///   - work: runs inside the shared transaction; what it throws undoes its own changes only.
    ///   - readBack: after a commit that was not acknowledged, gives the answer that the database permits; nil when
    ///     there is none.
    ///   - refusal: when nothing could be written, gives the refusal that is due all the same, by reading only; nil
    ///     when there is none.
    ///   - lost: called when nothing was written and the deadline had passed, so that nobody hears of it otherwise.
    ///   - keepsReads: the work changes nothing of what ``TransactionReads`` holds.
    func write<Answer: Sendable>(
        keepsReads: Bool = false,
        _ work: @escaping @Sendable (Database, inout ChainHead) throws -> Answer,
        readBack: @escaping @Sendable (Answer, Database) throws -> Answer?,
        refusal: @escaping @Sendable (Database) throws -> Answer? = { _ in nil },
        lost: @escaping @Sendable () -> Void = {}
    ) async throws(LedgerFailure) -> Answer {
        try await writes.write(start: start) { (caller: LedgerCall<Answer>) in
            SQLiteWrite(
                begin: caller.begin,
                perform: { [reads] db, head in
                    defer { if !keepsReads { reads.forget() } }
                    let answer = try work(db, &head)
                    return DecidedWrite(
                        acknowledge: { caller.resume(.success(answer)) },
                        readBack: { db in
                            guard let found = try readBack(answer, db) else { return false }
                            caller.resume(.success(found))
                            return true
                        })
                },
                refuse: { db in
                    guard let found = try refusal(db) else { return false }
                    caller.resume(.success(found))
                    return true
                },
                fail: { failure in
                    if !caller.resume(.failure(failure)) { lost() }
                })
        }
    }

    /// A record whose caller waits until the deadline. When the deadline passes during the commit and the record was
    /// not written after all, it is counted among those that were dropped.
    func append(_ record: AuditRecord) async throws(LedgerFailure) -> Int {
        try await write(
            { db, head in try db.append(record, to: &head) },
            readBack: { [records] line, db in try records.holds(line, db) ? line : nil },
            lost: writes.loss()
        ).sequence
    }

    func start() {
        connections.onWriter { [self] db in
            while let batch = writes.next() {
                if !batch.isEmpty { commit(batch, db) }
                connections.checkpointing.committed(db)
            }
        }
    }

    private func commit(_ writes: [SQLiteWrite], _ db: Database) {
        let started = ContinuousClock.now
        var batch = CommitBatch(writes)
        do {
            try place.requireUnchanged()
            do {
                try transaction(db) { head in try batch.perform(from: head, db) }
            } catch is WriteFailed {
                try transaction(db) { head in try batch.performSeparately(from: head, db) }
            }
            try faults.afterCommit()
            // Once more: the file may have gone between the look and the commit.
            try place.requireUnchanged()
            if let (_, end) = batch.reach { lastEnd.set([end]) }
            observe(.committed(writes: writes.count, after: started.duration(to: .now)))
            if let (begin, end) = batch.reach, end != begin { observe(.recorded(upTo: end.sequence)) }
            batch.acknowledge(db)
        } catch {
            // The commit may have taken place.
            if let (begin, end) = batch.reach { lastEnd.set([begin, end]) }
            let failure = LedgerFailure(error)
            observe(.failed(writes: writes.count, reason: failure.description))
            do {
                try place.requireUnchanged()
            } catch {
                // What would be found is gone with the process.
                return batch.fail(LedgerFailure(error))
            }
            batch.readBack(after: failure, db)
            // What was committed without an acknowledgement is in the record like everything else.
            if batch.reach != nil, (try? db.leaveTransaction()) != nil, let end = try? records.head(db) {
                observe(.recorded(upTo: end.sequence))
            }
        }
    }

    private func transaction(_ db: Database, _ perform: (ChainHead) throws -> Void) throws {
        try db.durably {
            reads.forget()
            try perform(lastEnd.checked(records.head(db)))
            try faults.insideTransaction()
        }
    }
}

/// A write that waits for the writer, and how its owner hears of it. Exactly one of its ways to answer is taken, once.
struct SQLiteWrite: QueuedWrite {
    let begin: @Sendable () -> Bool
    /// Decides and writes, inside the batch's transaction; what it records it appends to the chain's head. Called again
    /// when that transaction was rolled back on account of another write, so it has no effect outside the database.
    let perform: @Sendable (Database, inout ChainHead) throws -> DecidedWrite
    /// Nothing of it was written. Answers a refusal that what stands in the database justifies by itself; false when
    /// there is none, and then no answer was given.
    let refuse: @Sendable (Database) throws -> Bool
    let fail: @Sendable (LedgerFailure) -> Void
}

/// What a write decided inside a transaction that is not committed yet.
struct DecidedWrite {
    /// The transaction is durable.
    let acknowledge: () -> Void
    /// It is not known whether the transaction was committed. Answers from what stands in the database; false when
    /// nothing there permits an answer, and then none was given.
    let readBack: (Database) throws -> Bool
}

extension SQLiteWrite {
    /// A record that nobody waits for.
    init(
        recording record: AuditRecord, in records: RecordStatements, fail: @escaping @Sendable (LedgerFailure) -> Void
    ) {
        self.init(
            begin: { true },
            perform: { db, head in
                let line = try db.append(record, to: &head)
                return DecidedWrite(acknowledge: {}, readBack: { db in try records.holds(line, db) })
            },
            refuse: { _ in false }, fail: fail)
    }
}
