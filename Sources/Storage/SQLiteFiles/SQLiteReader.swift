package import DatabaseKit
package import GRDB
import Synchronization

/// A connection that only reads. It runs one read at a time.
///
/// Each caller waits until the store's deadline. A read whose deadline passes before it has begun is skipped. A read in
/// progress is interrupted at its deadline, so that a slow search does not delay the others.
package final class SQLiteReader<Failure: StoreFailure>: Sendable {
    /// The number of reads that may wait. A longer queue would only wait for a disk that hangs.
    package static var capacity: Int { 1024 }

    private struct State {
        var waiting = 0
        /// The number of the read in progress; nil if there is none.
        var running: UInt64?
        var next: UInt64 = 0
    }

    private let connection: DatabaseQueue
    private let deadlines: Deadlines<Failure>
    private let state = Mutex(State())

    package init(_ connection: DatabaseQueue, deadlines: Deadlines<Failure>) {
        self.connection = connection
        self.deadlines = deadlines
    }

    package func read<T: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> T
    ) async throws(Failure) -> T {
        let entered = state.withLock { state -> UInt64? in
            guard state.waiting < Self.capacity else { return nil }
            state.waiting += 1
            state.next += 1
            return state.next
        }
        guard let number = entered else { throw .overloaded }
        do throws(Failure) {
            return try await deadlines.answer { caller in
                connection.asyncRead { [self] database in
                    defer { state.withLock { $0.waiting -= 1 } }
                    // This precedes the read, so that a deadline that passes from now on finds a read to interrupt.
                    state.withLock { $0.running = number }
                    let result =
                        caller.begin()
                        ? Result { try body(try database.get()) }.mapError { Failure($0) } : nil
                    state.withLock { $0.running = nil }
                    if let result { caller.resume(result) }
                }
            }
        } catch {
            // The deadline has passed, or the read has failed and no longer runs.
            interrupt(number)
            throw error
        }
    }

    /// The number of reads that wait, including the one in progress and those whose deadline has passed.
    package var waiting: Int { state.withLock { $0.waiting } }

    /// Interrupts a read if it is still the one in progress. The lock keeps the next read from being interrupted
    /// instead.
    private func interrupt(_ number: UInt64) {
        state.withLock { if $0.running == number { connection.interrupt() } }
    }

    /// Blocks until the current operation has ended.
    package func close() throws { try connection.close() }
}
