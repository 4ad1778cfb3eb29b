package import DatabaseKit
package import GRDB
import Locks

/// A read-only connection that runs one read at a time.
///
/// A caller waits no longer than the store's deadline. A read whose deadline passes before it begins is skipped. A read
/// in progress is interrupted at its deadline, so that a slow search does not delay other reads.
package final class SQLiteReader<Failure: StoreFailure>: Sendable {
    /// The maximum number of waiting reads. A longer queue would form only while the disk does not respond.
    package static var capacity: Int { 1024 }

    private struct State {
        var waiting = 0
        /// The sequence number of the read in progress; nil if there is none.
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
                    // The number is set before the read begins, so that a deadline that passes from now on interrupts
                    // the read.
                    state.withLock { $0.running = number }
                    let result =
                        caller.begin()
                        ? Result { try body(try database.get()) }.mapError { Failure($0) } : nil
                    state.withLock { $0.running = nil }
                    if let result { caller.resume(result) }
                }
            }
        } catch {
            // The deadline has passed, or the read has failed. A failed read no longer runs, so the call then has no
            // effect.
            interrupt(number)
            throw error
        }
    }

    /// The number of reads that wait, including the one in progress and those whose deadline has passed.
    package var waiting: Int { state.withLock { $0.waiting } }

    /// Interrupts a read if it is still in progress. The lock prevents the next read from beginning and being
    /// interrupted in its place.
    private func interrupt(_ number: UInt64) {
        state.withLock { if $0.running == number { connection.interrupt() } }
    }

    /// Closes the connection. Blocks until the current operation has ended.
    package func close() throws { try connection.close() }
}
