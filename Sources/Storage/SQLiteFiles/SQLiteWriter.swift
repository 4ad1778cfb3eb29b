package import DatabaseKit
package import GRDB

/// The part of a batch that the store defines. The writer calls it on its own thread.
package protocol SQLiteBatches: Sendable {
    associatedtype Failure: StoreFailure
    /// The state that each write of a batch receives from the previous one.
    associatedtype State: Sendable

    /// Returns the state from which the writes start. Called inside the transaction, before the writes, and again if
    /// they are written separately.
    func begin(_ db: Database) throws -> State
    /// Called after the commit and before the batch is answered.
    func committed(_ writes: Int, from begin: State, to end: State, after time: Duration)
    /// Called if a batch was not acknowledged, before the writer reads back which writes are in the database.
    ///
    /// - Parameter reach: the states before the batch's first write and after its last; nil if the transaction failed
    ///   before all writes were performed.
    func failed(_ writes: Int, _ reach: (begin: State, end: State)?, _ failure: Failure)
    /// Called after the writes of an unacknowledged batch were read back.
    func readBack(_ db: Database)
    /// Called after each batch.
    func ended(_ db: Database)
}

extension SQLiteBatches {
    package func committed(_ writes: Int, from begin: State, to end: State, after time: Duration) {}
    package func failed(_ writes: Int, _ reach: (begin: State, end: State)?, _ failure: Failure) {}
    package func readBack(_ db: Database) {}
    package func ended(_ db: Database) {}
}

/// The only writer of a database. It takes the queued writes, commits them in one transaction, and answers each.
package final class SQLiteWriter<Batches: SQLiteBatches>: Sendable {
    package typealias Failure = Batches.Failure
    package typealias State = Batches.State
    package typealias Write = SQLiteWrite<Failure, State>

    package let writes: CommitQueue<Write>
    package let connection: DatabaseQueue
    private let place: DatabaseFilePlace
    private let batches: Batches

    package init(
        _ connection: DatabaseQueue, place: DatabaseFilePlace, writes: CommitQueue<Write>, _ batches: Batches
    ) {
        self.connection = connection
        self.place = place
        self.writes = writes
        self.batches = batches
    }

    /// Waits for a place in the queue, the commit and the answer, but not longer than the deadline. The writer skips a
    /// write whose deadline has passed.
    ///
    /// - Parameters:
    ///   - work: a function that runs inside the shared transaction. If it throws, only its own changes are undone. It
    ///     is called again if another write's failure undid the transaction.
    ///   - readBack: a function that returns the answer that the database's content permits after a commit that was not
    ///     acknowledged; nil if it permits none.
    ///   - refusal: a function that only reads. If nothing could be written, it returns the refusal that applies
    ///     anyway; nil if none does.
    ///   - lost: a function that is called if nothing was written, but the deadline had already passed, so that the
    ///     caller can no longer be told.
    package func write<Answer: Sendable>(
        _ work: @escaping @Sendable (Database, inout State) throws -> Answer,
        readBack: @escaping @Sendable (Answer, Database) throws -> Answer?,
        refusal: @escaping @Sendable (Database) throws -> Answer? = { _ in nil },
        lost: @escaping @Sendable () -> Void = {}
    ) async throws(Failure) -> Answer {
        try await writes.write(start: start) { (caller: Call<Answer, Failure>) in
            Write(
                begin: caller.begin,
                perform: { db, state in
                    let answer = try work(db, &state)
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

    package func start() {
        connection.asyncWriteWithoutTransaction { [self] db in
            while let batch = writes.next() {
                if !batch.isEmpty { commit(batch, db) }
                batches.ended(db)
            }
        }
    }

    private func commit(_ writes: [Write], _ db: Database) {
        let started = ContinuousClock.now
        var batch = CommitBatch(writes)
        do {
            try place.requireUnchanged()
            do {
                try db.durably { try batch.perform(from: batches.begin(db), db) }
            } catch is WriteFailed {
                try db.durably { try batch.performSeparately(from: batches.begin(db), db) }
            }
            // The file may have been removed after the first check.
            try place.requireUnchanged()
            if let (begin, end) = batch.reach {
                batches.committed(writes.count, from: begin, to: end, after: started.duration(to: .now))
            }
            batch.acknowledge(db)
        } catch {
            let failure = Failure(error)
            // The commit may have succeeded.
            batches.failed(writes.count, batch.reach, failure)
            do {
                try place.requireUnchanged()
            } catch {
                // The file was replaced, so a commit to the old file is lost when the process ends.
                return batch.fail(Failure(error))
            }
            batch.readBack(after: failure, db)
            if batch.reach != nil, (try? db.leaveTransaction()) != nil { batches.readBack(db) }
        }
    }

    /// Blocks until the current operation has ended.
    package func close() throws { try connection.close() }
}

/// A write in the writer's queue, and the functions that answer its caller. The writer calls exactly one of them, once.
package struct SQLiteWrite<Failure: StoreFailure, State: Sendable>: QueuedWrite {
    package let begin: @Sendable () -> Bool
    /// Decides the write and performs it inside the batch's transaction, and appends the write's records to the state.
    /// It is called again if the transaction was rolled back because of another write, so it must have no other effect.
    let perform: @Sendable (Database, inout State) throws -> DecidedWrite
    /// Called if the write left nothing in the database. If the database's content alone justifies a refusal, answers
    /// with that refusal; otherwise returns false and does not answer.
    let refuse: @Sendable (Database) throws -> Bool
    package let fail: @Sendable (Failure) -> Void
}

extension SQLiteWrite {
    /// A write that no caller waits for.
    ///
    /// - Parameter readBack: a function that returns true if the write's rows are in the database.
    package init<Written: Sendable>(
        unawaited work: @escaping @Sendable (Database, inout State) throws -> Written,
        readBack: @escaping @Sendable (Written, Database) throws -> Bool, fail: @escaping @Sendable (Failure) -> Void
    ) {
        self.init(
            begin: { true },
            perform: { db, state in
                let written = try work(db, &state)
                return DecidedWrite(acknowledge: {}, readBack: { db in try readBack(written, db) })
            },
            refuse: { _ in false }, fail: fail)
    }
}

/// The decision on a write whose transaction is not committed yet.
struct DecidedWrite {
    /// Called when the transaction is durable.
    let acknowledge: () -> Void
    /// Called if it is unknown whether the transaction was committed. Answers by the database's content. Returns false,
    /// without an answer, if the content permits none.
    let readBack: (Database) throws -> Bool
}

/// The writes of one transaction, decided in the order of their arrival.
struct CommitBatch<Failure: StoreFailure, State: Sendable> {
    private enum Outcome {
        /// The transaction failed before this write.
        case open
        case decided(DecidedWrite)
        /// This write failed; the others continue.
        case failed(Failure)
    }

    private let writes: [SQLiteWrite<Failure, State>]
    private var outcomes: [Outcome]
    /// The state from which the transaction started, and the one to which it led; nil until all writes are performed.
    private(set) var reach: (begin: State, end: State)?

    init(_ writes: [SQLiteWrite<Failure, State>]) {
        self.writes = writes
        outcomes = Array(repeating: .open, count: writes.count)
    }

    /// Performs all writes inside the transaction, without a savepoint for each: savepoints cost a third of SQLite's
    /// work here, and a write rarely fails. Throws ``WriteFailed`` if one fails; the caller must then roll back.
    mutating func perform(from start: State, _ db: Database) throws {
        var state = start
        for (position, write) in writes.enumerated() {
            do {
                outcomes[position] = .decided(try write.perform(db, &state))
            } catch {
                outcomes = Array(repeating: .open, count: writes.count)
                throw WriteFailed()
            }
        }
        reach = (start, state)
    }

    /// Performs each write in a savepoint inside the transaction, so that a failed write undoes only its own changes.
    /// Throws if the whole transaction is lost.
    mutating func performSeparately(from start: State, _ db: Database) throws {
        var state = start
        for (position, write) in writes.enumerated() {
            var next = state
            do {
                outcomes[position] = .decided(try db.separately { try write.perform(db, &next) })
                state = next
            } catch let lost as TransactionLost {
                throw lost.cause
            } catch {
                outcomes[position] = .failed(Failure(error))
            }
        }
        reach = (start, state)
    }

    /// Answers all writes after the commit.
    func acknowledge(_ db: Database) {
        answer(readBack: false, after: .unavailable(reason: "It was not written."), db)
    }

    /// Answers each write according to the database's content after the transaction failed, since only the database
    /// shows whether the commit succeeded.
    func readBack(after failure: Failure, _ db: Database) {
        answer(readBack: true, after: failure, db)
    }

    /// Answers all writes after a failure of the transaction if nothing can be read back.
    func fail(_ failure: Failure) {
        for write in writes { write.fail(reach == nil ? failure : failure.asPossiblyWritten) }
    }

    private func answer(readBack: Bool, after failure: Failure, _ db: Database) {
        // The commit is tried only after all writes are performed.
        let mayBeWritten = readBack && reach != nil
        // After one failed read, no other is tried, because each may wait for a lock.
        var isReadable = true
        func found(_ look: (Database) throws -> Bool) -> Bool {
            guard isReadable else { return false }
            do {
                try db.leaveTransaction()
                return try look(db)
            } catch {
                isReadable = false
                return false
            }
        }
        for (write, outcome) in zip(writes, outcomes) {
            var reason = failure
            switch outcome {
            case .decided(let decided):
                if !readBack {
                    decided.acknowledge()
                    continue
                }
                if found(decided.readBack) { continue }
            case .failed(let own): reason = own
            case .open: break
            }
            if found(write.refuse) { continue }
            write.fail(mayBeWritten && !isReadable ? reason.asPossiblyWritten : reason)
        }
    }
}

/// A write of the transaction failed.
struct WriteFailed: Error {}

/// SQLite aborted the transaction, or cannot undo a part of it. Nothing of it may be committed.
struct TransactionLost: Error {
    let cause: any Error
}

extension Database {
    /// Runs a part of a transaction; if it throws, only its own changes are undone.
    ///
    /// - Throws: the error of `body`, or ``TransactionLost`` if the whole transaction is lost.
    func separately<T>(_ body: () throws -> T) throws -> T {
        do {
            try cachedStatement(sql: "SAVEPOINT one_write").execute()
            let result = try body()
            try cachedStatement(sql: "RELEASE one_write").execute()
            return result
        } catch {
            // On a full disk or an I/O error, SQLite may roll back the whole transaction by itself.
            guard isInsideTransaction else { throw TransactionLost(cause: error) }
            do {
                try cachedStatement(sql: "ROLLBACK TO one_write").execute()
                try cachedStatement(sql: "RELEASE one_write").execute()
            } catch let undoing {
                throw TransactionLost(cause: undoing)
            }
            throw error
        }
    }
}
