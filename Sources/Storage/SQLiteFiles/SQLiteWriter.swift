package import DatabaseKit
package import GRDB

/// The part that a store adds to its batches, on the writer's thread.
package protocol SQLiteBatches: Sendable {
    associatedtype Failure: StoreFailure
    /// The state that the writes of a batch hand on to each other.
    associatedtype State: Sendable

    /// Inside the transaction, before its writes: what they go on from. Called again when they are written separately.
    func begin(_ db: Database) throws -> State
    /// Before the batch is answered.
    func committed(_ writes: Int, from begin: State, to end: State, after time: Duration)
    /// A batch was not acknowledged, and what stands of it is read back next.
    ///
    /// - Parameter reach: nil where the transaction failed before all was performed.
    func failed(_ writes: Int, _ reach: (begin: State, end: State)?, _ failure: Failure)
    /// The writes of an unacknowledged batch that are in the database were read back.
    func readBack(_ db: Database)
    /// After each batch.
    func ended(_ db: Database)
}

extension SQLiteBatches {
    package func committed(_ writes: Int, from begin: State, to end: State, after time: Duration) {}
    package func failed(_ writes: Int, _ reach: (begin: State, end: State)?, _ failure: Failure) {}
    package func readBack(_ db: Database) {}
    package func ended(_ db: Database) {}
}

/// The one writer: takes what waits, commits it as one transaction, and then answers each.
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
    /// the writer has come to it is not written.
    ///
    /// - Parameters:
    ///   - work: runs inside the shared transaction; what it throws undoes its own changes only. Called again where another
    ///     write's failure undid the transaction.
    ///   - readBack: after a commit that was not acknowledged, gives the answer that the database permits; nil when
    ///     there is none.
    ///   - refusal: when nothing could be written, gives the refusal that is due all the same, by reading only; nil
    ///     when there is none.
    ///   - lost: called when nothing was written and the deadline had passed, so that nobody hears of it otherwise.
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
            // Once more: the file may have gone between the look and the commit.
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
                // What would be found is gone with the process.
                return batch.fail(Failure(error))
            }
            batch.readBack(after: failure, db)
            if batch.reach != nil, (try? db.leaveTransaction()) != nil { batches.readBack(db) }
        }
    }

    /// Blocks until what is under way has ended.
    package func close() throws { try connection.close() }
}

/// A write that waits for the writer, and how its owner hears of it. Exactly one of its ways to answer is taken, once.
package struct SQLiteWrite<Failure: StoreFailure, State: Sendable>: QueuedWrite {
    package let begin: @Sendable () -> Bool
    /// Decides and writes, inside the batch's transaction; what it records it appends to the state. Called again
    /// when that transaction was rolled back on account of another write, so it has no effect outside the database.
    let perform: @Sendable (Database, inout State) throws -> DecidedWrite
    /// Nothing of it was written. Answers a refusal that what stands in the database justifies by itself; false when
    /// there is none, and then no answer was given.
    let refuse: @Sendable (Database) throws -> Bool
    package let fail: @Sendable (Failure) -> Void
}

extension SQLiteWrite {
    /// A write that no caller waits for.
    ///
    /// - Parameter readBack: whether what it wrote is there.
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

/// What a write decided inside a transaction that is not committed yet.
struct DecidedWrite {
    /// The transaction is durable.
    let acknowledge: () -> Void
    /// It is not known whether the transaction was committed. Answers from what stands in the database; false when
    /// nothing there permits an answer, and then none was given.
    let readBack: (Database) throws -> Bool
}

/// The writes of one transaction, decided in the order in which they came.
struct CommitBatch<Failure: StoreFailure, State: Sendable> {
    private enum Outcome {
        /// The transaction failed before it came to this one.
        case open
        case decided(DecidedWrite)
        /// It could not be written, which is its own affair: the others go on.
        case failed(Failure)
    }

    private let writes: [SQLiteWrite<Failure, State>]
    private var outcomes: [Outcome]
    /// The state that the transaction went on from, and the one that it has led to; nil until all of it is performed.
    private(set) var reach: (begin: State, end: State)?

    init(_ writes: [SQLiteWrite<Failure, State>]) {
        self.writes = writes
        outcomes = Array(repeating: .open, count: writes.count)
    }

    /// Inside the transaction, without a savepoint for each: they cost a third of all that SQLite does here, and nearly
    /// always every write succeeds. Throws ``WriteFailed`` when one does not; the transaction must be rolled back then.
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

    /// Inside the transaction, so that a write that fails undoes its own changes only. Throws when the transaction as a
    /// whole is lost.
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

    /// After the commit.
    func acknowledge(_ db: Database) {
        answer(readBack: false, after: .unavailable(reason: "It was not written."), db)
    }

    /// After a failure of the transaction: whether the commit took place is in the database, and nowhere else, so every
    /// write is answered by what is found of it there.
    func readBack(after failure: Failure, _ db: Database) {
        answer(readBack: true, after: failure, db)
    }

    /// After a failure of the transaction, when nothing can be found out about it.
    func fail(_ failure: Failure) {
        for write in writes { write.fail(reach == nil ? failure : failure.whereItMayStand) }
    }

    private func answer(readBack: Bool, after failure: Failure, _ db: Database) {
        // Before all is performed no commit is tried.
        let mayStand = readBack && reach != nil
        // What cannot be read once is not tried again for each: every try may wait for a lock.
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
            write.fail(mayStand && !isReadable ? reason.whereItMayStand : reason)
        }
    }
}

/// One of a transaction's writes cannot be written.
struct WriteFailed: Error {}

/// SQLite gave up the transaction, or a part of it cannot be undone: nothing of it may be committed.
struct TransactionLost: Error {
    let cause: any Error
}

extension Database {
    /// Runs a part of a transaction; what it throws undoes its own changes only.
    ///
    /// - Throws: what `body` threw, or ``TransactionLost`` when the whole transaction goes with it.
    func separately<T>(_ body: () throws -> T) throws -> T {
        do {
            try cachedStatement(sql: "SAVEPOINT one_write").execute()
            let result = try body()
            try cachedStatement(sql: "RELEASE one_write").execute()
            return result
        } catch {
            // On a full disk and on I/O errors SQLite may roll back everything by itself.
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
