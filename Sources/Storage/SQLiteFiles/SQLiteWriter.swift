package import DatabaseKit
package import GRDB

/// The functions that a store supplies for its batches of writes. ``SQLiteWriter`` calls them on its own thread.
package protocol SQLiteBatches: Sendable {
    associatedtype Failure: StoreFailure
    /// The state that each write of a batch receives from the previous one.
    associatedtype State: Sendable

    /// Returns the state that the first write receives. Called inside the transaction before the writes. Called again
    /// if a write failed and the writes are repeated one by one.
    func begin(_ db: Database) throws -> State
    /// Called after the commit, before the callers are answered.
    func committed(_ writes: Int, from begin: State, to end: State, after time: Duration)
    /// Called if a batch failed. The writer then reads which of the batch's writes are in the database.
    ///
    /// - Parameter reach: the states before the first write and after the last one; nil if the transaction failed
    ///   before all writes were performed.
    func failed(_ writes: Int, _ reach: (begin: State, end: State)?, _ failure: Failure)
    /// Called after the writer has read which writes of a failed batch are in the database.
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

/// The only writer of a database. It commits all queued writes in one transaction and then answers their callers.
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

    /// Queues a write, and waits for its commit and answer, but not beyond the deadline. The writer skips a write whose
    /// deadline has passed.
    ///
    /// - Parameters:
    ///   - work: a function that performs the write inside the shared transaction. If it throws, only its own changes
    ///     are undone. It is called again if another write's failure undid the transaction.
    ///   - readBack: a function that is called if it is unknown whether the commit succeeded. It returns the answer
    ///     that the database's content proves; nil if the content proves none.
    ///   - refusal: a function that is called if the write left nothing in the database. It must only read. It returns
    ///     a refusal if the database's content already rules out the write, and nil otherwise.
    ///   - lost: a function that is called if the write fails after the deadline, when its caller can no longer be
    ///     answered.
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
            // The commit may have succeeded in spite of the error.
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

    /// Closes the connection. Blocks until the current operation has ended.
    package func close() throws { try connection.close() }
}

/// A write in the writer's queue, with the functions that answer its caller. The writer answers each caller exactly
/// once.
package struct SQLiteWrite<Failure: StoreFailure, State: Sendable>: QueuedWrite {
    package let begin: @Sendable () -> Bool
    /// Decides the write, performs it inside the batch's transaction, and updates the state for the next write. It is
    /// called again if another write's failure undid the transaction, so it must have no other effect.
    let perform: @Sendable (Database, inout State) throws -> DecidedWrite
    /// Called if the write left nothing in the database. If the database's content already rules out the write, answers
    /// the caller with a refusal and returns true. Otherwise returns false without an answer.
    let refuse: @Sendable (Database) throws -> Bool
    package let fail: @Sendable (Failure) -> Void
}

extension SQLiteWrite {
    /// Makes a write that no caller waits for.
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

/// A write that has been performed, but whose transaction is not committed yet.
struct DecidedWrite {
    /// Answers the caller. Called when the transaction is durable.
    let acknowledge: () -> Void
    /// Called if it is unknown whether the transaction was committed. If the database's content proves the result,
    /// answers the caller and returns true. Otherwise returns false without an answer.
    let readBack: (Database) throws -> Bool
}

/// The writes of one transaction, decided in the order of their arrival.
struct CommitBatch<Failure: StoreFailure, State: Sendable> {
    private enum Outcome {
        /// The write has not been performed, or the transaction failed before it.
        case open
        case decided(DecidedWrite)
        /// The write failed, and its changes were undone. The other writes continue.
        case failed(Failure)
    }

    private let writes: [SQLiteWrite<Failure, State>]
    private var outcomes: [Outcome]
    /// The states before the first write and after the last one; nil until all writes are performed.
    private(set) var reach: (begin: State, end: State)?

    init(_ writes: [SQLiteWrite<Failure, State>]) {
        self.writes = writes
        outcomes = Array(repeating: .open, count: writes.count)
    }

    /// Performs all writes inside the transaction without a savepoint for each. Savepoints cost a third of SQLite's
    /// work here, and a write rarely fails. Throws ``WriteFailed`` if a write fails. The caller must then roll back the
    /// transaction.
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

    /// Answers all callers after the commit.
    func acknowledge(_ db: Database) {
        answer(readBack: false, after: .unavailable(reason: "It was not written."), db)
    }

    /// Answers each caller according to the database's content after the transaction failed. Only the content shows
    /// whether the commit succeeded.
    func readBack(after failure: Failure, _ db: Database) {
        answer(readBack: true, after: failure, db)
    }

    /// Answers all callers with a failure, without reading the database.
    func fail(_ failure: Failure) {
        for write in writes { write.fail(reach == nil ? failure : failure.asPossiblyWritten) }
    }

    private func answer(readBack: Bool, after failure: Failure, _ db: Database) {
        // The commit is tried only after all writes are performed.
        let mayBeWritten = readBack && reach != nil
        // After one failed read, no further read is tried, because each may wait for a lock.
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

/// The error for a transaction in which a write failed.
struct WriteFailed: Error {}

/// The error for a transaction that SQLite aborted, or in which SQLite cannot undo a failed write. The transaction must
/// not be committed.
struct TransactionLost: Error {
    let cause: any Error
}

extension Database {
    /// Runs `body` inside a savepoint. If `body` throws, only its own changes are undone.
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
