package import DatabaseKit
package import GRDB

/// The part that a store adds to its batches, on the writer's thread.
package protocol SQLiteBatches: Sendable {
    associatedtype Failure: StoreFailure
    /// The state that the writes of a batch pass on to each other.
    associatedtype State: Sendable

    /// Called inside the transaction, before its writes: returns the state that they start from. Called again if they
    /// are written separately.
    func begin(_ db: Database) throws -> State
    /// Called before the batch is answered.
    func committed(_ writes: Int, from begin: State, to end: State, after time: Duration)
    /// A batch was not acknowledged, and the writes that are in the database are read back next.
    ///
    /// - Parameter reach: nil if the transaction failed before all writes were performed.
    func failed(_ writes: Int, _ reach: (begin: State, end: State)?, _ failure: Failure)
    /// The writes of an unacknowledged batch that are in the database were read back.
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

/// The one writer: takes the queued writes, commits them as one transaction, and then answers each.
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

    /// Waits for a place, the commit and its answer, at most until the deadline. A write whose deadline passes before
    /// the writer takes it is not written.
    ///
    /// - Parameters:
    ///   - work: runs inside the shared transaction; if it throws, only its own changes are undone. Called again if
    ///     another write's failure undid the transaction.
    ///   - readBack: after a commit that was not acknowledged, returns the answer that the database's content permits;
    ///     nil if there is none.
    ///   - refusal: if nothing could be written, returns the refusal that is due in any case, by reading only; nil if
    ///     there is none.
    ///   - lost: called if nothing was written and the deadline had passed, so that no caller learns of it.
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
            // Again: the file may have been removed between the check and the commit.
            try place.requireUnchanged()
            if let (begin, end) = batch.reach {
                batches.committed(writes.count, from: begin, to: end, after: started.duration(to: .now))
            }
            batch.acknowledge(db)
        } catch {
            let failure = Failure(error)
            // The commit may have taken place.
            batches.failed(writes.count, batch.reach, failure)
            do {
                try place.requireUnchanged()
            } catch {
                // The commit's result would be lost with the process.
                return batch.fail(Failure(error))
            }
            batch.readBack(after: failure, db)
            if batch.reach != nil, (try? db.leaveTransaction()) != nil { batches.readBack(db) }
        }
    }

    /// Blocks until the current operation has ended.
    package func close() throws { try connection.close() }
}

/// A write that waits for the writer, with its ways to answer. Exactly one of them is called, once.
package struct SQLiteWrite<Failure: StoreFailure, State: Sendable>: QueuedWrite {
    package let begin: @Sendable () -> Bool
    /// Decides and writes, inside the batch's transaction, and appends its records to the state. Called again if that
    /// transaction was rolled back because of another write, so it has no effect outside the database.
    let perform: @Sendable (Database, inout State) throws -> DecidedWrite
    /// Called if nothing of it was written. Answers with a refusal that the database's content justifies by itself;
    /// returns false if there is none, and then it gives no answer.
    let refuse: @Sendable (Database) throws -> Bool
    package let fail: @Sendable (Failure) -> Void
}

extension SQLiteWrite {
    /// A write that no caller waits for.
    ///
    /// - Parameter readBack: returns true if its rows are there.
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

/// The decision of a write inside a transaction that is not committed yet.
struct DecidedWrite {
    /// Called when the transaction is durable.
    let acknowledge: () -> Void
    /// Called if it is unknown whether the transaction was committed. Answers by the database's content; returns false
    /// if that permits no answer, and then it gives none.
    let readBack: (Database) throws -> Bool
}

/// The writes of one transaction, decided in the order of their arrival.
struct CommitBatch<Failure: StoreFailure, State: Sendable> {
    private enum Outcome {
        /// The transaction failed before this write.
        case open
        case decided(DecidedWrite)
        /// This write could not be written; the others continue.
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

    /// Called inside the transaction. It makes no savepoint for each write: savepoints cost a third of SQLite's work
    /// here, and nearly always every write succeeds. Throws ``WriteFailed`` if one fails; then the transaction must be
    /// rolled back.
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

    /// Called inside the transaction. A write that fails undoes only its own changes. Throws if the whole transaction
    /// is lost.
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

    /// Called after the commit.
    func acknowledge(_ db: Database) {
        answer(readBack: false, after: .unavailable(reason: "It was not written."), db)
    }

    /// Called after a failure of the transaction. Only the database shows whether the commit took place, so every write
    /// is answered by what is found there.
    func readBack(after failure: Failure, _ db: Database) {
        answer(readBack: true, after: failure, db)
    }

    /// Called after a failure of the transaction, if nothing can be read back.
    func fail(_ failure: Failure) {
        for write in writes { write.fail(reach == nil ? failure : failure.asPossiblyWritten) }
    }

    private func answer(readBack: Bool, after failure: Failure, _ db: Database) {
        // No commit is tried before all writes are performed.
        let mayBeWritten = readBack && reach != nil
        // After one failed read no other is tried: each try may wait for a lock.
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

/// One of a transaction's writes failed.
struct WriteFailed: Error {}

/// SQLite aborted the transaction, or a part of it cannot be undone: nothing of it may be committed.
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
            // On a full disk and on I/O errors SQLite may roll back the whole transaction itself.
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
