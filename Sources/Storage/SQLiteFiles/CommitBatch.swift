import DatabaseKit
import GRDB

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
    /// What the transaction went on from, and what it has led to; nil until all of it is performed.
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
