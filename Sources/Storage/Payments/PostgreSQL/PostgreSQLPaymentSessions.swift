import DatabaseKit
import Foundation
import Locks
import PostgreSQLClient

/// A few sessions with one queue of jobs. Each session has its own thread, because libpq blocks.
///
/// A caller waits no longer than the time-out. A job that has not begun when the time-out ends is never run.
final class PostgreSQLPaymentSessions: Sendable {
    /// The maximum number of waiting jobs. A longer queue would form only while the server does not respond.
    static let capacity = 1024
    /// The number of sessions. The changes of one payment run in sequence; those of several payments can run in
    /// parallel.
    static let count = 8

    /// A job for one session.
    private typealias Job = @Sendable (PostgreSQLPaymentSession) -> Void

    private struct State {
        var waiting: [Job] = []
        var isClosed = false
        var threads = 0
    }

    private let timeout: Duration
    private let deadlines: Deadlines<PaymentStoreError>
    private let state: Mutex<State>
    private let arrived = DispatchSemaphore(value: 0)
    private let ended = DispatchSemaphore(value: 0)

    /// - Parameter first: a session, which may already be open.
    init(_ hosts: PostgreSQLHosts, first: PostgreSQLPaymentSession) {
        timeout = hosts.timeout
        deadlines = Deadlines(timeout: timeout)
        state = Mutex(State(threads: Self.count))
        for number in 0..<Self.count {
            let session = number == 0 ? first : PostgreSQLPaymentSession(hosts)
            Thread.detachNewThread { [self] in runJobs(session) }
        }
    }

    /// Runs `body` with a thread's session, and waits for its result.
    ///
    /// - Parameter body: called at most once, on a thread that may block, with the time by which it must end.
    func perform<Value: Sendable>(
        _ body: @escaping @Sendable (PostgreSQLPaymentSession, ContinuousClock.Instant) throws -> Value
    ) async throws(PaymentStoreError) -> Value {
        let deadline = ContinuousClock.now + timeout
        return try await deadlines.answer { (caller: Call<Value, PaymentStoreError>) in
            let refusal = enqueue { session in
                guard caller.begin() else { return }
                // `body` itself ends by `deadline`. Its error tells if the change may have been committed, while the
                // queue's time-out would leave that unknown.
                caller.removeDeadline()
                caller.resume(Result { try body(session, deadline) }.mapError { PaymentStoreError($0) })
            }
            if let refusal { caller.resume(.failure(refusal)) }
        }
    }

    private func enqueue(_ job: @escaping Job) -> PaymentStoreError? {
        let refusal: PaymentStoreError? = state.withLock { state in
            if state.isClosed { return .unavailable(reason: "The store is closed.") }
            guard state.waiting.count < Self.capacity else { return .overloaded }
            state.waiting.append(job)
            return nil
        }
        if refusal == nil { arrived.signal() }
        return refusal
    }

    private func runJobs(_ session: PostgreSQLPaymentSession) {
        while true {
            arrived.wait()
            let (job, isClosed) = state.withLock { state in
                (state.waiting.isEmpty ? nil : state.waiting.removeFirst(), state.isClosed)
            }
            if let job { job(session) } else if isClosed { break }
        }
        session.drop()
        ended.signal()
    }

    /// Refuses further jobs. The threads and sessions end after the queued jobs.
    ///
    /// - Returns: the number of threads that end; 0 if this method was called before.
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
