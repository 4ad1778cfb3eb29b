import AuditChain
import GRDB

/// The writes of one transaction, decided in the order in which they came.
struct CommitBatch {
    private enum Outcome {
        /// The transaction failed before it came to this one.
        case open
        case decided(DecidedWrite)
        /// It could not be written, which is its own affair: the others go on.
        case failed(LedgerFailure)
    }

    private let writes: [SQLiteWrite]
    private var outcomes: [Outcome]
    /// Where the chain ends before and after the transaction; nil until all of it is performed.
    private(set) var reach: (begin: ChainHead, end: ChainHead)?

    init(_ writes: [SQLiteWrite]) {
        self.writes = writes
        outcomes = Array(repeating: .open, count: writes.count)
    }

    /// Inside the transaction, without a savepoint for each: they cost a third of all that SQLite does here, and nearly
    /// always every write succeeds. Throws ``WriteFailed`` when one does not; the transaction must be rolled back then.
    mutating func perform(from start: ChainHead, _ db: Database) throws {
        var head = start
        for (position, write) in writes.enumerated() {
            do {
                outcomes[position] = .decided(try write.perform(db, &head))
            } catch {
                outcomes = Array(repeating: .open, count: writes.count)
                throw WriteFailed()
            }
        }
        reach = (start, head)
    }

    /// Inside the transaction, so that a write that fails undoes its own changes only. Throws when the transaction as a
    /// whole is lost.
    mutating func performSeparately(from start: ChainHead, _ db: Database) throws {
        var head = start
        for (position, write) in writes.enumerated() {
            var next = head
            do {
                outcomes[position] = .decided(try db.separately { try write.perform(db, &next) })
                head = next
            } catch let lost as TransactionLost {
                throw lost.cause
            } catch {
                outcomes[position] = .failed(LedgerFailure(error))
            }
        }
        reach = (start, head)
    }

    /// After the commit.
    func acknowledge(_ db: Database) {
        answer(readBack: false, after: .unavailable(reason: "It was not written."), db)
    }

    /// After a failure of the transaction: whether the commit took place is in the database, and nowhere else, so every
    /// write is answered by what is found of it there.
    func readBack(after failure: LedgerFailure, _ db: Database) {
        answer(readBack: true, after: failure, db)
    }

    /// After a failure of the transaction, when nothing can be found out about it.
    func fail(_ failure: LedgerFailure) {
        for write in writes { write.fail(failure) }
    }

    private func answer(readBack: Bool, after failure: LedgerFailure, _ db: Database) {
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
            if !found(write.refuse) { write.fail(reason) }
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
            try cachedStatement(sql: "SAVEPOINT ledger_write").execute()
            let result = try body()
            try cachedStatement(sql: "RELEASE ledger_write").execute()
            return result
        } catch {
            // On a full disk and on I/O errors SQLite may roll back everything by itself.
            guard isInsideTransaction else { throw TransactionLost(cause: error) }
            do {
                try cachedStatement(sql: "ROLLBACK TO ledger_write").execute()
                try cachedStatement(sql: "RELEASE ledger_write").execute()
            } catch let undoing {
                throw TransactionLost(cause: undoing)
            }
            throw error
        }
    }
}
