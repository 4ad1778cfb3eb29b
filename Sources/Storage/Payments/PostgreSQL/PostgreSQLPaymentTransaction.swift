import DatabaseKit
import Foundation
import PostgreSQLClient

/// One change of the store: it reads rows and locks them, decides, and sends the writes together with the commit.
///
/// It takes two round trips. A failure before the commit was sent changes nothing, and the transaction is repeated if
/// that may help. After a later failure the commit is in doubt: the session is dropped, and the server may still
/// commit.
struct PostgreSQLPaymentTransaction<Value: Sendable>: Sendable {
    let reading: [StoredStatement]
    /// Decides on the change, from the rows of each statement of `reading`.
    ///
    /// - Returns: the value to return once `writing` is durable; nothing is written if `writing` is empty.
    let decide: @Sendable ([[any StoredRow]]) throws -> (value: Value, writing: [StoredStatement])

    /// The maximum number of times that a transaction is tried. A deadlock, or a conflict with rows of another
    /// transaction, usually does not occur again.
    private static var maximumTries: Int { 5 }

    func perform(
        on connections: PostgreSQLPaymentSessions.Connections, until deadline: ContinuousClock.Instant
    ) throws -> Value {
        for number in 1... {
            do {
                return try once(on: connections, until: deadline)
            } catch is Doubtful where number < Self.maximumTries {
                // Only changes wait for the probe. Transactions that only read continue.
                _ = try connections.doubt.settle {
                    try PostgreSQLPaymentTransaction<Void>.probe.prove(on: connections, until: deadline)
                }
            } catch let fault as Undone {
                guard case .refused(let state, _) = fault.failure, state.isConflict, number < Self.maximumTries,
                    ContinuousClock.now < deadline
                else { throw PaymentStoreError.unavailable(reason: fault.failure.reason) }
            }
        }
        preconditionFailure("The last try returns or throws.")
    }

    /// The failure of a transaction that has certainly changed nothing.
    private struct Undone: Error {
        let failure: PostgreSQLFailure
    }

    /// The refusal of a transaction while another commit is in doubt. Nothing was changed.
    private struct Doubtful: Error {}

    /// Runs the transaction once.
    ///
    /// - Parameter provesCommits: true for the transaction that tests whether the server acknowledges commits again.
    private func once(
        on connections: PostgreSQLPaymentSessions.Connections, until deadline: ContinuousClock.Instant,
        provesCommits: Bool = false
    ) throws -> Value {
        let (connection, read): (PostgreSQLConnection, [PostgreSQLResult])
        do {
            (connection, read) = try connections.begin(
                [Self.begin] + reading.map { PostgreSQLStatement($0) }, until: deadline)
        } catch let failure as PostgreSQLFailure {
            if case .refused = failure { rollBack(connections, until: deadline) }
            throw Undone(failure: failure)
        }
        let decided: (value: Value, writing: [StoredStatement])
        do { decided = try decide(read.dropFirst().map(\.rows)) } catch {
            rollBack(connections, until: deadline)
            throw error
        }
        guard !decided.writing.isEmpty else {
            rollBack(connections, until: deadline)
            return decided.value
        }
        guard provesCommits || !connections.doubt.isOpen else {
            rollBack(connections, until: deadline)
            throw Doubtful()
        }
        do throws(PostgreSQLFailure) {
            let results = try connection.exchange(
                decided.writing.map { PostgreSQLStatement($0) } + [Self.commit], until: deadline)
            // The server answers ROLLBACK if it could not commit. It warns if it committed and a standby may not have
            // the commit.
            guard results.last?.tag == "COMMIT" else { throw .refused(SQLState(known: "25P02"), statement: 0) }
        } catch {
            // A refused transaction was not committed; one without a response may have been.
            guard case .refused = error else {
                connections.doubt.began()
                connections.drop()
                throw PaymentStoreError.inDoubt(reason: error.reason)
            }
            rollBack(connections, until: deadline)
            throw Undone(failure: error)
        }
        guard !connection.hasWarned else {
            connections.doubt.began()
            throw PaymentStoreError.inDoubt(reason: "PostgreSQL warned at the commit: a standby may not have it.")
        }
        return decided.value
    }

    /// Restores the session to its state before the transaction, or drops it.
    private func rollBack(
        _ connections: PostgreSQLPaymentSessions.Connections, until deadline: ContinuousClock.Instant
    ) {
        do { _ = try connections.connection(until: deadline).exchange([Self.rollback], until: deadline) } catch {
            connections.drop()
        }
    }

    private static var begin: PostgreSQLStatement {
        PostgreSQLStatement("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", prepared: "begin")
    }
    private static var commit: PostgreSQLStatement { PostgreSQLStatement("COMMIT", prepared: "commit") }
    private static var rollback: PostgreSQLStatement { PostgreSQLStatement("ROLLBACK", prepared: "rollback") }
}

extension PostgreSQLPaymentTransaction<Void> {
    /// A transaction that proves that the server, and the standby if one is named, acknowledge commits. It changes no
    /// row: its log record is empty.
    ///
    /// Only one gateway probes at a time. If its commit waits on the server, it keeps the lock until the wait ends. The
    /// next probe is refused after the lock's time-out, before it sends a commit.
    static var probe: Self {
        Self(
            reading: [
                StoredStatement(
                    "SELECT pg_advisory_xact_lock(hashtext('paytoken_gateway probe'))", prepared: "lock_probe")
            ],
            decide: { _ in
                ((), [StoredStatement("SELECT pg_logical_emit_message(true, 'paytoken_gateway', '')")])
            })
    }

    /// Runs this transaction as the probe.
    ///
    /// - Throws: if a commit is not acknowledged, or only with a warning.
    func prove(
        on connections: PostgreSQLPaymentSessions.Connections, until deadline: ContinuousClock.Instant
    ) throws {
        do { try once(on: connections, until: deadline, provesCommits: true) } catch let fault as Undone {
            throw PaymentStoreError.unavailable(reason: fault.failure.reason)
        }
    }
}

extension SQLState {
    /// True for an error that another transaction caused: a unique violation, a deadlock or a serialization failure. A
    /// repeated transaction sees the other one's changes.
    fileprivate var isConflict: Bool {
        self == .deadlock || self == .serializationFailure || code == "23505"
    }
}
