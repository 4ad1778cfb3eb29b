/// A commit that may have been made, but that the server did not acknowledge, or acknowledged with a warning.
///
/// The session of such a commit may wait on the server for an unavailable standby, long after the program has dropped
/// it. The ledger has one writer, which reads back the commit's outcome (PostgreSQLDoubt.swift). The store of payments
/// has several writers. They report the doubt, and commit nothing until a commit is acknowledged (CommitDoubt.swift).
package struct CommitInDoubt: Error {
    package let reason: String
}

extension PostgreSQLConnection {
    /// Sends the last statements of a transaction together with its COMMIT.
    ///
    /// - Throws: ``CommitInDoubt`` if the commit may have been made. A ``PostgreSQLFailure`` means that it was not made.
    package func commit(_ statements: [PostgreSQLStatement], until deadline: ContinuousClock.Instant) throws {
        let results: [PostgreSQLResult]
        do throws(PostgreSQLFailure) {
            results = try exchange(
                statements + [PostgreSQLStatement("COMMIT", prepared: "commit")], until: deadline)
        } catch {
            if case .refused(_, let position) = error, position < statements.count { throw error }
            throw CommitInDoubt(reason: error.reason)
        }
        // The server answers ROLLBACK if an earlier statement of the transaction had failed.
        guard results.last?.tag == "COMMIT" else {
            throw PostgreSQLFailure.refused(.failedTransaction, statement: statements.count)
        }
        // The server sends a warning, for example, if its wait for the standby was cancelled. The standby may then lack
        // the commit, so that a failover would lose it.
        guard !hasWarned else {
            throw CommitInDoubt(reason: "PostgreSQL sent a warning at the commit: a standby may not have it.")
        }
    }
}
