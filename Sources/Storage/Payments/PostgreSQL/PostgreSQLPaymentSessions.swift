import DatabaseKit
import Foundation
import PostgreSQLClient
import Synchronization

/// A few sessions, each on a thread of its own, since libpq and resolvers block; and what waits for one of them.
///
/// Whoever waits does so until the time-out and no longer. What was not begun by then is not done.
final class PostgreSQLPaymentSessions: Sendable {
    /// More wait only for a server that hangs.
    static let capacity = 1024
    /// A payment's changes follow each other; several payments' can be under way together.
    static let count = 8

    /// A piece of work for one session.
    private struct Job: Sendable {
        let deadline: ContinuousClock.Instant
        /// False when its caller has given it up; then it is not run.
        let begin: @Sendable () -> Bool
        let run: @Sendable (Connections) -> Void
        /// Called instead of `run`.
        let fail: @Sendable (PaymentStoreError) -> Void
    }

    /// One thread's session: made when it is needed and again when it was dropped.
    final class Connections {
        /// One for all threads.
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

        /// The first exchange of a piece of work, after which nothing is changed yet. It is made once more in a new session where the
        /// session has ended: its server was restarted, say, though the session was never used.
        func begin(
            _ statements: [PostgreSQLStatement], until deadline: ContinuousClock.Instant, isRepetition: Bool = false
        ) throws -> (connection: PostgreSQLConnection, results: [PostgreSQLResult]) {
            let connection = try connection(until: deadline)
            do throws(PostgreSQLFailure) {
                return (connection, try connection.exchange(statements, until: deadline))
            } catch {
                // What was refused leaves the session as it was.
                if case .refused = error { throw error }
                drop()
                guard case .lost = error, !isRepetition else { throw error }
                return try begin(statements, until: deadline, isRepetition: true)
            }
        }

        /// Gives the session up, whatever it is at; its end on the server is not waited for.
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

    /// - Parameter first: a session that was opened already.
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

    /// - Parameter body: called once on a thread that may block, with the moment by which it must have ended; or not at all.
    func perform<Value: Sendable>(
        _ body: @escaping @Sendable (Connections, ContinuousClock.Instant) throws -> Value
    ) async throws(PaymentStoreError) -> Value {
        let deadline = ContinuousClock.now + timeout
        return try await deadlines.answer { (caller: Call<Value, PaymentStoreError>) in
            enter(
                Job(
                    deadline: deadline, begin: caller.begin,
                    run: { connections in
                        // It ends by `deadline` itself, and knows then what may stand.
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
            // Connecting may block for longer than whoever waits can: the job stays theirs to give up meanwhile.
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

    /// Nothing is taken any more; threads and sessions end with what was entered before.
    ///
    /// - Returns: how many threads end; none the second time.
    @discardableResult
    func end() -> Int {
        let threads = state.withLock { state in
            defer { (state.isClosed, state.threads) = (true, 0) }
            return state.threads
        }
        for _ in 0..<threads { arrived.signal() }
        return threads
    }

    /// The same, and returns when that is done, or has taken twice the time that anything may take; blocks.
    func close() {
        let latest = DispatchTime.now() + (timeout / .seconds(1)) * 2
        for _ in 0..<end() { _ = ended.wait(timeout: latest) }
    }
}
