import DatabaseKit
import Foundation
import PostgreSQLClient
import Synchronization

/// A few sessions, each on its own thread because libpq and resolvers block, and their job queue.
///
/// A caller waits no longer than the time-out. A job that has not begun by then is not run.
final class PostgreSQLPaymentSessions: Sendable {
    /// The maximum number of waiting jobs. A longer queue would only wait for a server that hangs.
    static let capacity = 1024
    /// The number of sessions. The changes of one payment run in sequence; those of several payments can run in
    /// parallel.
    static let count = 8

    /// A job for one session.
    private struct Job: Sendable {
        let deadline: ContinuousClock.Instant
        /// Returns false if its caller no longer waits; the job is then not run.
        let begin: @Sendable () -> Bool
        let run: @Sendable (Connections) -> Void
        /// Reports an error to the caller, in place of `run`.
        let fail: @Sendable (PaymentStoreError) -> Void
    }

    /// One thread's session, opened when needed and reopened after it was dropped.
    final class Connections {
        /// The doubt about commits, which all threads share.
        let doubt: CommitDoubt
        private let session: PostgreSQLPaymentSession
        private var current: PostgreSQLConnection?

        init(_ session: PostgreSQLPaymentSession, _ first: PostgreSQLConnection?, _ doubt: CommitDoubt) {
            self.session = session
            self.doubt = doubt
            current = first
        }

        func connection(until deadline: ContinuousClock.Instant) throws(PaymentStoreError) -> PostgreSQLConnection {
            if let current { return current }
            do throws(PaymentStoreOpeningError) {
                let new = try session.open(until: deadline)
                current = new
                return new
            } catch {
                throw .unavailable(reason: error.description)
            }
        }

        /// Makes the first exchange of a job, which changes nothing yet. If the session has ended, for example because
        /// its server was restarted, the exchange is repeated once in a new session.
        func begin(
            _ statements: [PostgreSQLStatement], until deadline: ContinuousClock.Instant, isRepetition: Bool = false
        ) throws -> (connection: PostgreSQLConnection, results: [PostgreSQLResult]) {
            let connection = try connection(until: deadline)
            do throws(PostgreSQLFailure) {
                return (connection, try connection.exchange(statements, until: deadline))
            } catch {
                // A statement that the server refused has not ended the session.
                if case .refused = error { throw error }
                drop()
                guard case .lost = error, !isRepetition else { throw error }
                return try begin(statements, until: deadline, isRepetition: true)
            }
        }

        /// Drops the session in any state, without waiting for its end on the server.
        func drop() { current = nil }
    }

    private struct State {
        var waiting: [Job] = []
        var isClosed = false
        var threads = 0
    }

    private let session: PostgreSQLPaymentSession
    private let timeout: Duration
    private let deadlines: Deadlines<PaymentStoreError>
    private let doubt = CommitDoubt()
    private let state: Mutex<State>
    private let arrived = DispatchSemaphore(value: 0)
    private let ended = DispatchSemaphore(value: 0)

    /// - Parameter first: a session that is already open.
    init(_ session: PostgreSQLPaymentSession, timeout: Duration, first: PostgreSQLConnection) {
        self.session = session
        self.timeout = timeout
        deadlines = Deadlines(timeout: timeout)
        state = Mutex(State(threads: Self.count))
        let given = Mutex<PostgreSQLConnection?>(first)
        for _ in 0..<Self.count {
            Thread.detachNewThread { [self] in
                let first = given.withLock { given in
                    defer { given = nil }
                    return given
                }
                work(Connections(session, first, doubt))
            }
        }
    }

    /// Runs `body` with a thread's session, and waits for its result.
    ///
    /// - Parameter body: called at most once, on a thread that may block, with the time by which it must end.
    func perform<Value: Sendable>(
        _ body: @escaping @Sendable (Connections, ContinuousClock.Instant) throws -> Value
    ) async throws(PaymentStoreError) -> Value {
        let deadline = ContinuousClock.now + timeout
        return try await deadlines.answer { (caller: Call<Value, PaymentStoreError>) in
            enter(
                Job(
                    deadline: deadline, begin: caller.begin,
                    run: { connections in
                        // From here on the caller waits for the body, which ends by `deadline` and then knows what may
                        // have been committed.
                        caller.removeDeadline()
                        caller.resume(Result { try body(connections, deadline) }.mapError { PaymentStoreError($0) })
                    }, fail: { caller.resume(.failure($0)) }))
        }
    }

    private func enter(_ job: Job) {
        let refusal: PaymentStoreError? = state.withLock { state in
            if state.isClosed { return .unavailable(reason: "The store is closed.") }
            guard state.waiting.count < Self.capacity else { return .overloaded }
            state.waiting.append(job)
            return nil
        }
        if let refusal { return job.fail(refusal) }
        arrived.signal()
    }

    private func work(_ connections: Connections) {
        while true {
            arrived.wait()
            let (job, isClosed) = state.withLock { state in
                (state.waiting.isEmpty ? nil : state.waiting.removeFirst(), state.isClosed)
            }
            guard let job else {
                if isClosed { break }
                continue
            }
            // Connecting may block longer than the caller can wait; in the meantime the caller can still abandon the
            // job.
            do throws(PaymentStoreError) {
                if ContinuousClock.now < job.deadline { _ = try connections.connection(until: job.deadline) }
                if job.begin() { job.run(connections) }
            } catch {
                job.fail(error)
            }
        }
        connections.drop()
        ended.signal()
    }

    /// Accepts no further jobs; threads and sessions end after the queued ones.
    ///
    /// - Returns: the number of threads that end; 0 the second time.
    @discardableResult
    func end() -> Int {
        let threads = state.withLock { state in
            defer { (state.isClosed, state.threads) = (true, 0) }
            return state.threads
        }
        for _ in 0..<threads { arrived.signal() }
        return threads
    }

    /// Stops the threads. Blocks until they have ended, or for twice the time-out.
    func close() {
        let latest = DispatchTime.now() + (timeout / .seconds(1)) * 2
        for _ in 0..<end() { _ = ended.wait(timeout: latest) }
    }
}
