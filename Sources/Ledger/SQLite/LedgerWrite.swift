import AuditChain
import GRDB

/// A write that waits for the writer, and how its owner hears of it. Exactly one of its ways to answer is taken, once.
struct LedgerWrite: Sendable {
    /// Judges and writes, inside the batch's transaction; what it records it appends to the chain's head.
    let perform: @Sendable (Database, inout ChainHead) throws -> DecidedWrite
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
