import GRDB
import Synchronization

/// A connection that only reads, one read after the other.
///
/// Whoever waits for it waits until the ledger's deadline. A read whose deadline passes before it has begun is left
/// out, and one that is under way is interrupted, so that a search that takes too long does not keep the others waiting.
final class SQLiteReader: Sendable {
    /// More wait only for a disk that hangs.
    static let capacity = 1024

    private struct State {
        var waiting = 0
        /// The read under way.
        var running: UInt64?
        var next: UInt64 = 0
    }

    private let connection: DatabaseQueue
    private let deadlines: LedgerDeadlines
    private let state = Mutex(State())

    init(_ connection: DatabaseQueue, deadlines: LedgerDeadlines) {
        self.connection = connection
        self.deadlines = deadlines
    }

    func read<T: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> T
    ) async throws(LedgerFailure) -> T {
        let entered = state.withLock { state -> UInt64? in
            guard state.waiting < Self.capacity else { return nil }
            state.waiting += 1
            state.next += 1
            return state.next
        }
        guard let number = entered else { throw .overloaded }
        do throws(LedgerFailure) {
            return try await deadlines.answer { caller in
                connection.asyncRead { [self] database in
                    defer { state.withLock { $0.waiting -= 1 } }
                    // Before it begins: a deadline that passes from then on finds what to interrupt.
                    state.withLock { $0.running = number }
                    let result = caller.begin() ? Self.result { try body(try database.get()) } : nil
                    state.withLock { $0.running = nil }
                    if let result { caller.resume(result) }
                }
            }
        } catch {
            if case .timedOut = error { interrupt(number) }
            throw error
        }
    }

    /// How many reads wait, with the one under way and those whose deadline has passed.
    var waiting: Int { state.withLock { $0.waiting } }

    /// Inside the lock: the next read must not be taken for this one.
    private func interrupt(_ number: UInt64) {
        state.withLock { if $0.running == number { connection.interrupt() } }
    }

    /// Blocks until what is under way has ended.
    func close() throws { try connection.close() }

    private static func result<T>(_ body: () throws -> T) -> Result<T, LedgerFailure> {
        do {
            return .success(try body())
        } catch {
            return .failure(LedgerFailure(error))
        }
    }
}
