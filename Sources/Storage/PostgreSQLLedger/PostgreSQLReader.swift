import DatabaseKit
import Dispatch
import Foundation
import Ledger
import Locks
import PostgreSQLClient

/// A session that only reads, one read at a time, on its own thread.
///
/// Callers wait until the ledger's deadline. A read whose deadline passes before the read begins is skipped. A read that
/// has begun has the whole time-out, even if its caller's deadline comes earlier: with less, one that waited long would
/// be abandoned with its session, and over a slow network so would each read after it. After that time the reader
/// abandons its session, and the server ends the statement by `statement_timeout`.
final class PostgreSQLReader: Sendable {
    /// The maximum number of queued reads. A longer queue would form only while the server does not respond.
    static let capacity = 1024

    /// The queries of one ``PostgreSQLReader/read(_:)``.
    struct Queries: StoredQueries {
        fileprivate let connection: PostgreSQLConnection
        fileprivate let deadline: ContinuousClock.Instant

        func run(_ sql: String, _ values: [StoredValue]) throws -> [any StoredRow] {
            try results([PostgreSQLStatement(sql, shared: values)])[0].rows
        }

        func rows(_ sql: String, _ values: [PostgreSQLValue] = []) throws -> [PostgreSQLRow] {
            try results([PostgreSQLStatement(sql, values)])[0].rows
        }

        /// Runs the statements in one round trip.
        func results(_ statements: [PostgreSQLStatement]) throws -> [PostgreSQLResult] {
            try connection.exchange(statements, until: deadline)
        }
    }

    private let session: LedgerSession
    private let queue: DispatchQueue
    private let deadlines: LedgerDeadlines
    private let state = Mutex((waiting: 0, isClosed: false))

    init(_ session: LedgerSession, label: String, deadlines: LedgerDeadlines) {
        self.session = session
        queue = DispatchQueue(label: label)
        self.deadlines = deadlines
    }

    /// - Parameter body: makes the read and must not write. It is called again with a new session if the first session
    ///   had ended.
    func read<T: Sendable>(_ body: @escaping @Sendable (Queries) throws -> T) async throws(LedgerFailure) -> T {
        let isAdmitted = state.withLock { state in
            guard state.waiting < Self.capacity else { return false }
            state.waiting += 1
            return true
        }
        guard isAdmitted else { throw .overloaded }
        return try await deadlines.answer { (caller: LedgerCall<T>) in
            queue.async { [self] in
                defer { state.withLock { $0.waiting -= 1 } }
                guard caller.begin() else { return }
                caller.resume(perform(body))
            }
        }
    }

    /// Queues a read and returns immediately; `then` is called on the reader's thread. The ledger's time-out limits the
    /// read.
    func read<T: Sendable>(
        _ body: @escaping @Sendable (Queries) throws -> T,
        then: @escaping @Sendable (Result<T, LedgerFailure>) -> Void
    ) {
        queue.async { [self] in then(perform(body)) }
    }

    private func perform<T>(_ body: (Queries) throws -> T) -> Result<T, LedgerFailure> {
        let deadline = ContinuousClock.now + deadlines.timeout
        guard !state.withLock({ $0.isClosed }) else { return .failure(.unavailable(reason: "It is closed.")) }
        return Result {
            try session.reading(until: deadline) { try body(Queries(connection: $0, deadline: deadline)) }
        }.mapError { LedgerFailure($0) }
    }

    /// The number of queued reads, including the current one and those whose deadline has passed.
    var waiting: Int { state.withLock { $0.waiting } }

    func close() {
        state.withLock { $0.isClosed = true }
        queue.async { [session] in session.drop() }
    }
}
