import AuditChain
import Foundation
import GRDB

/// The one writer: takes what waits, commits it as one transaction, and then answers each.
final class SQLiteWriter: Sendable {
    private let connections: SQLiteConnections
    private let place: LedgerPlace
    private let chain: SQLiteChain
    private let faults: SQLiteFaults
    private let observe: @Sendable (LedgerEvent) -> Void
    private let queue: CommitQueue<LedgerWrite>
    private let deadlines: LedgerDeadlines
    private let lastEnd = LastEnd()
    private let reads: TransactionReads

    init(
        connections: SQLiteConnections, place: LedgerPlace, chain: SQLiteChain, capacity: Int,
        deadlines: LedgerDeadlines, reads: TransactionReads, faults: SQLiteFaults,
        observe: @escaping @Sendable (LedgerEvent) -> Void
    ) {
        self.connections = connections
        self.place = place
        self.chain = chain
        self.faults = faults
        self.observe = observe
        self.deadlines = deadlines
        self.reads = reads
        queue = CommitQueue(capacity: capacity, patience: deadlines.timeout)
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
        try await deadlines.answer { (caller: LedgerCall<Answer>) in
            let write = LedgerWrite(
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
            switch queue.enter(write, isNote: false) {
            case .begins: start()
            case .joins: break
            case .full: write.fail(.overloaded)
            case .stuck: write.fail(.timedOut(after: deadlines.timeout, mayStand: false))
            case .closed: write.fail(.unavailable(reason: "It is closed."))
            }
        }
    }

    /// A record whose caller waits until the deadline. When the deadline passes during the commit and the record was
    /// not written after all, it is counted among those that were dropped.
    func append(_ record: AuditRecord) async throws(LedgerFailure) -> Int {
        let dropped = CommitQueue<LedgerWrite>.Dropped(count: 1, since: Date())
        return try await write(
            { [chain] db, head in try chain.append(record, to: &head, db) },
            readBack: { [chain] line, db in try chain.holds(line, db) ? line : nil },
            lost: { [self] in drop(dropped) }
        ).sequence
    }

    /// Returns at once; nobody waits for it.
    func note(_ record: AuditRecord) {
        let dropped = CommitQueue<LedgerWrite>.Dropped(count: 1, since: Date())
        let note = LedgerWrite(
            begin: { true },
            perform: { [chain] db, head in
                let line = try chain.append(record, to: &head, db)
                return DecidedWrite(acknowledge: {}, readBack: { db in try chain.holds(line, db) })
            },
            refuse: { _ in false },
            fail: { [self] _ in drop(dropped) })
        switch queue.enter(note, isNote: true) {
        case .begins: start()
        case .joins: break
        case .full, .stuck, .closed: drop(dropped)
        }
    }

    /// How many writes wait for the next batch.
    var waiting: Int { queue.waiting }

    /// Whether notes were dropped that no record counts yet.
    var hasDropped: Bool { queue.hasDropped }

    /// What comes now is refused; what waits is still written.
    func close() {
        queue.close()
    }

    private func drop(_ dropped: CommitQueue<LedgerWrite>.Dropped) {
        queue.drop(dropped)
        observe(.dropped(notes: dropped.count))
    }

    private func start() {
        connections.onWriter { [self] db in
            while let waiting = queue.next() {
                let writes = recordOfDropped() + waiting.filter { $0.begin() }
                if !writes.isEmpty { commit(writes, db) }
            }
        }
    }

    /// The record of notes that were dropped. It fails like any other write, and is tried again with the next batch.
    private func recordOfDropped() -> [LedgerWrite] {
        guard let dropped = queue.takeDropped() else { return [] }
        let record = AuditRecord(
            time: AuditTime(Date()), event: .recordsDropped(count: dropped.count, since: AuditTime(dropped.since)),
            outcome: .refused(.ledgerUnavailable))
        return [
            LedgerWrite(
                begin: { true },
                perform: { [chain] db, head in
                    let line = try chain.append(record, to: &head, db)
                    return DecidedWrite(acknowledge: {}, readBack: { db in try chain.holds(line, db) })
                },
                refuse: { _ in false },
                fail: { [queue] _ in queue.drop(dropped) })
        ]
    }

    private func commit(_ writes: [LedgerWrite], _ db: Database) {
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
                return batch.fail(error)
            }
            batch.readBack(after: failure, db)
            // What was committed without an acknowledgement is in the record like everything else.
            if batch.reach != nil, (try? db.leaveTransaction()) != nil, let end = try? chain.head(db) {
                observe(.recorded(upTo: end.sequence))
            }
        }
    }

    private func transaction(_ db: Database, _ perform: (ChainHead) throws -> Void) throws {
        try db.durably {
            reads.forget()
            try perform(lastEnd.checked(chain.head(db)))
            try faults.insideTransaction()
        }
    }
}

/// A write that waits for the writer, and how its owner hears of it. Exactly one of its ways to answer is taken, once.
struct LedgerWrite: Sendable {
    /// The writer takes it into a batch. False when its caller's deadline has passed: then it is not written.
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

/// Places where tests let the engine fail; nothing happens there otherwise.
struct SQLiteFaults: Sendable {
    /// All is written and nothing committed.
    var insideTransaction: @Sendable () throws -> Void = {}
    /// The commit has taken place and its acknowledgement gets lost.
    var afterCommit: @Sendable () throws -> Void = {}
    /// A read begins.
    var reading: @Sendable () throws -> Void = {}
    /// A copy begins.
    var copying: @Sendable () throws -> Void = {}
    /// The ledger is being opened, and its lock is held.
    var opening: @Sendable () throws -> Void = {}
}
