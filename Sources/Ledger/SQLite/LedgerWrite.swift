import AuditChain
import GRDB

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
