import AuditChain
import GRDB

/// The writes of one transaction, judged in the order in which they came.
struct CommitBatch {
    private enum Outcome {
        /// The transaction failed before it came to this one.
        case open
        case decided(DecidedWrite)
        /// It could not be written, which is its own affair: the others go on.
        case failed(LedgerFailure)
    }

    private let writes: [LedgerWrite]
    private var outcomes: [Outcome]

    init(_ writes: [LedgerWrite]) {
        self.writes = writes
        outcomes = Array(repeating: .open, count: writes.count)
    }

    /// Inside the transaction. Throws when the transaction as a whole is lost.
    mutating func perform(from start: ChainHead, _ db: Database) throws {
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
    }

    /// After the commit.
    func acknowledge() {
        for (write, outcome) in zip(writes, outcomes) {
            switch outcome {
            case .decided(let decided): decided.acknowledge()
            case .failed(let failure): write.fail(failure)
            case .open: write.fail(.unavailable(reason: "It was not written."))
            }
        }
    }

    /// After a failure of the transaction, when nothing can be found out about it.
    func fail(_ failure: LedgerFailure) {
        for write in writes { write.fail(failure) }
    }

    /// After a failure of the transaction: whether the commit took place is in the database, and nowhere else, so every
    /// write is judged by what is found of it there.
    func readBack(after failure: LedgerFailure, _ db: Database) {
        for (write, outcome) in zip(writes, outcomes) {
            switch outcome {
            case .decided(let decided):
                do {
                    try db.leaveTransaction()
                    if try !decided.readBack(db) { write.fail(failure) }
                } catch {
                    write.fail(failure)
                }
            case .failed(let own): write.fail(own)
            case .open: write.fail(failure)
            }
        }
    }
}

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
