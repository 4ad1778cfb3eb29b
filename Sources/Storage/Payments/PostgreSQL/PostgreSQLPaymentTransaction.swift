import DatabaseKit
import Foundation
import PostgreSQLClient

/// One change of the store: it reads rows and locks them, decides, and sends the writes together with the commit.
///
/// A change takes two round trips. A failure before the commit was sent changes nothing. After a conflict with another
/// transaction, the change is tried again. After a failure of the commit itself, the commit is in doubt: the session is
/// dropped, and the server may still commit.
struct PostgreSQLPaymentTransaction<Value: Sendable>: Sendable {
    let reading: [StoredStatement]
    /// Decides on the change, from the rows of each statement of `reading`.
    ///
    /// - Returns: the statements to run as `writing`, and the value that ``perform(in:_:until:)`` returns after their
    ///   commit. If `writing` is empty, the transaction changes nothing.
    let decide: @Sendable ([[any StoredRow]]) throws -> (value: Value, writing: [StoredStatement])

    /// The maximum number of times that a transaction is tried. A deadlock, or a conflict with rows of another
    /// transaction, usually does not occur again.
    private static var maximumTries: Int { 5 }

    /// - Throws: a `PostgreSQLFailure` only if nothing was changed.
    func perform(
        in session: PostgreSQLPaymentSession, _ doubt: CommitDoubt, until deadline: ContinuousClock.Instant
    ) throws -> Value {
        for number in 1... {
            do {
                return try runOnce(in: session, doubt, until: deadline)
            } catch is Doubtful where number < Self.maximumTries {
                // This transaction has changes to write, so the probe must first succeed. A transaction without changes
                // needs no probe.
                _ = try doubt.resolve(in: session, until: deadline)
            } catch PostgreSQLFailure.refused(let state, _)
                where state.isConflict && number < Self.maximumTries && ContinuousClock.now < deadline
            {}
        }
        preconditionFailure("The last try returns or throws.")
    }

    /// The reason why a transaction was not committed: an earlier commit is in doubt. Nothing was changed.
    private struct Doubtful: Error {}

    /// Runs the transaction once.
    ///
    /// - Parameter provesCommits: true for the transaction that tests whether the server acknowledges commits again.
    private func runOnce(
        in session: PostgreSQLPaymentSession, _ doubt: CommitDoubt, until deadline: ContinuousClock.Instant,
        provesCommits: Bool = false
    ) throws -> Value {
        do {
            let read = try session.reading(until: deadline) {
                try $0.exchange([Self.begin] + reading.map { PostgreSQLStatement($0) }, until: deadline)
            }
            let decided = try decide(read.dropFirst().map(\.rows))
            guard !decided.writing.isEmpty else {
                session.rollBack(until: deadline)
                return decided.value
            }
            guard provesCommits || !doubt.isOpen else { throw Doubtful() }
            try session.current(until: deadline).commit(
                decided.writing.map { PostgreSQLStatement($0) }, until: deadline)
            return decided.value
        } catch let error as CommitInDoubt {
            doubt.began()
            session.drop()
            throw PaymentStoreError.inDoubt(reason: error.reason)
        } catch {
            session.rollBack(until: deadline)
            throw error
        }
    }

    private static var begin: PostgreSQLStatement {
        PostgreSQLStatement("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", prepared: "begin")
    }
}

extension PostgreSQLPaymentTransaction<Void> {
    /// A transaction that proves that the server, and the standby if one is named, acknowledge commits. It changes no
    /// row: its log record is empty.
    ///
    /// Only one gateway probes at a time. A probe whose commit waits on the server keeps its advisory lock until the
    /// wait ends. The next probe is then refused after the lock's time-out, before it sends a commit.
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
    /// - Throws: an error if the server does not acknowledge a commit, or acknowledges it with a warning.
    func runAsProbe(
        in session: PostgreSQLPaymentSession, _ doubt: CommitDoubt, until deadline: ContinuousClock.Instant
    ) throws {
        try runOnce(in: session, doubt, until: deadline, provesCommits: true)
    }
}

extension SQLState {
    /// True for an error that a concurrent transaction caused: a unique violation, a deadlock or a serialization
    /// failure. If the transaction is repeated, it sees the changes of the concurrent one.
    fileprivate var isConflict: Bool {
        self == .deadlock || self == .serializationFailure || code == "23505"
    }
}
