import Foundation
import GRDB
import SQLiteFiles
import Synchronization

/// The one connection that writes. Changes that come while a commit is under way share the next one, and its sync.
///
/// Each change has a savepoint of its own: one that is refused is undone alone.
final class SQLiteCommits: Sendable {
    /// More wait only for a disk that hangs.
    static let capacity = 1024

    private struct Change: Sendable {
        /// Inside the transaction. What it throws undoes it alone.
        let perform: @Sendable (Database) throws -> Void
        /// Once: nil after the commit.
        let finish: @Sendable (PaymentStoreError?) -> Void
    }

    private struct State {
        var waiting: [Change] = []
        var isWriting = false
    }

    private let connection: DatabaseQueue
    private let place: DatabaseFilePlace
    private let state = Mutex(State())
    /// For tests: runs after the changes and before their commit, and after it.
    let faults: SQLitePaymentFaults

    init(_ connection: DatabaseQueue, place: DatabaseFilePlace, faults: SQLitePaymentFaults) {
        self.connection = connection
        self.place = place
        self.faults = faults
    }

    /// - Parameter body: called once; what it returns is durable when this returns.
    func write<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(PaymentStoreError) -> Value {
        let decided = Mutex<Result<Value, any Error>?>(nil)
        let failure: PaymentStoreError? = await withCheckedContinuation { continuation in
            let change = Change(
                perform: { db in
                    let result = Result { try body(db) }
                    decided.withLock { $0 = result }
                    _ = try result.get()
                }, finish: { continuation.resume(returning: $0) })
            enter(change)
        }
        if let failure { throw failure }
        switch decided.withLock({ $0 }) {
        case .success(let value): return value
        case .failure(let error): throw PaymentStoreError(error)
        case nil: throw .unavailable(reason: "The change was not made.")
        }
    }

    private func enter(_ change: Change) {
        let (isFull, begins) = state.withLock { state -> (Bool, Bool) in
            guard state.waiting.count < Self.capacity else { return (true, false) }
            state.waiting.append(change)
            defer { state.isWriting = true }
            return (false, !state.isWriting)
        }
        if isFull { return change.finish(.overloaded) }
        guard begins else { return }
        connection.asyncWriteWithoutTransaction { [self] db in
            while let batch = next() { commit(batch, db) }
        }
    }

    private func next() -> [Change]? {
        state.withLock { state in
            guard !state.waiting.isEmpty else {
                state.isWriting = false
                return nil
            }
            defer { state.waiting = [] }
            return state.waiting
        }
    }

    private func commit(_ batch: [Change], _ db: Database) {
        var isCommitting = false
        do {
            try place.requireUnchanged()
            try db.durably {
                for change in batch {
                    try? db.inSavepoint {
                        try change.perform(db)
                        return .commit
                    }
                    // SQLite ends the whole transaction by itself where it cannot go on, at a full disk say.
                    guard db.isInsideTransaction else {
                        throw PaymentStoreError.unavailable(
                            reason: "SQLite ended the transaction: no room, or an I/O error.")
                    }
                }
                try faults.beforeCommit()
                isCommitting = true
            }
            try faults.afterCommit()
            // Once more: the file may have gone between the look and the commit.
            try place.requireUnchanged()
            for change in batch { change.finish(nil) }
        } catch {
            try? db.leaveTransaction()
            let reason = PaymentStoreError.reason(of: error)
            for change in batch {
                change.finish(isCommitting ? .inDoubt(reason: reason) : .unavailable(reason: reason))
            }
        }
    }

    /// Blocks until what is under way has ended.
    func close() throws { try connection.close() }
}

/// Places where a test lets the store fail.
struct SQLitePaymentFaults: Sendable {
    var beforeCommit: @Sendable () throws -> Void = {}
    var afterCommit: @Sendable () throws -> Void = {}
}

extension PaymentStoreError {
    /// Only SQLite's code and fixed sentences: a statement's values stay out of logs.
    init(_ error: any Error) {
        self = error as? PaymentStoreError ?? .unavailable(reason: Self.reason(of: error))
    }

    static func reason(of error: any Error) -> String {
        switch error {
        case PaymentStoreError.unavailable(let reason), PaymentStoreError.inDoubt(let reason): reason
        case let error as PaymentStoreError: error.description
        case let error as DatabaseError: "SQLite says \(error.extendedResultCode)."
        case let error as DatabaseFileReplaced: error.description
        case is TransactionLeftOpen: "A transaction that failed cannot be rolled back."
        default: "\(type(of: error))."
        }
    }
}
