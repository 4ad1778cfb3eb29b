import DatabaseKit
import Foundation
import GRDB
import Locks
import SQLiteFiles

/// The two connections to the file of payments, one for writing and one for reading.
///
/// On a full disk, a file that was closed cleanly cannot be opened by two connections: SQLite creates their shared
/// memory (`-shm`) as a file. A single connection with exclusive access needs no such file. The store then reads with
/// such a connection, and refuses every change until there is room.
final class SQLitePaymentConnections: Sendable {
    private enum State {
        case writable(Writer, Reader, DatabaseFilePlace)
        case readOnly(Reader, DatabaseFilePlace)
        case opening
        case closed
    }

    typealias Writer = SQLiteWriter<PaymentBatches>
    typealias Reader = SQLiteReader<PaymentStoreError>

    private let path: String
    let deadlines: Deadlines<PaymentStoreError>
    private let state: Mutex<State>
    /// Held while the connections are opened or closed, which takes time, unlike a look at `state`.
    private let changes = Mutex(())

    /// The time in seconds to wait for a full disk or another program's lock.
    private static let busyTimeout: TimeInterval = 2
    /// The number of pages in the write-ahead log after which a commit copies the log into the file.
    private static let checkpointPages = 1000
    /// The number of free bytes below which the file is not opened for writing: enough for the shared memory and a
    /// payment's commits.
    private static let minimumFreeBytes: Int64 = 256 << 10

    /// The maximum number of waiting changes. A longer queue would form only while the disk does not respond.
    private static let capacity = 1024

    /// Opens the file, and creates its tables if there are none; blocks.
    ///
    /// - Throws: ``PaymentStoreOpeningError``, and GRDB's errors.
    init(path: String, deadlines: Deadlines<PaymentStoreError>) throws {
        self.path = path
        self.deadlines = deadlines
        do {
            state = Mutex(try Self.openWritable(path, deadlines))
        } catch let error as DatabaseError where error.isLackOfRoom {
            guard let reading = try? Self.openReadOnly(path, deadlines) else { throw error }
            state = Mutex(reading)
        }
    }

    private static func openWritable(_ path: String, _ deadlines: Deadlines<PaymentStoreError>) throws -> State {
        let connection = try DurableSQLite.writing(
            path, label: "payments.writer", checkpointPages: checkpointPages, busyTimeout: busyTimeout)
        try connection.writeWithoutTransaction { db in
            try DurableSQLite.requireDurability(db, path: path)
            try SQLitePaymentSchema.prepare(db, path: path)
            do {
                // This process has the lock file's lock, so the gateway that made these attempts has ended. Their
                // deadlines can therefore be set to 0, without waiting for them or trusting a clock.
                try db.durably {
                    try db.execute(sql: "UPDATE payment SET deadline = 0 WHERE state IN ('received', 'submitting')")
                }
            } catch let error as DatabaseError where error.isLackOfRoom {
                // Without room for this change, the attempts keep their deadlines, and count as abandoned only after
                // these deadlines.
                try db.leaveTransaction()
            }
        }
        let reader = try DurableSQLite.reading(path, label: "payments.reader", busyTimeout: busyTimeout)
        let place = DatabaseFilePlace(path: path)
        let writer = Writer(
            connection, place: place, writes: CommitQueue(capacity: capacity, deadlines: deadlines), PaymentBatches())
        return .writable(writer, Reader(reader, deadlines: deadlines), place)
    }

    /// Opens the file only for reading, because there is no room to write.
    ///
    /// - Throws: an error if the file cannot be read, or if its tables have another schema version.
    private static func openReadOnly(_ path: String, _ deadlines: Deadlines<PaymentStoreError>) throws -> State {
        let reader = try DurableSQLite.readingAlone(path, label: "payments.reader", busyTimeout: busyTimeout)
        try reader.read { db in
            guard try Int.fetchOne(db, sql: "SELECT schema_version FROM payment_store") == SQLitePaymentSchema.version
            else { throw PaymentStoreOpeningError.notAStore(place: path) }
        }
        return .readOnly(Reader(reader, deadlines: deadlines), DatabaseFilePlace(path: path))
    }

    /// The connection for writing.
    ///
    /// - Throws: `unavailable` while there is no room to write, or after ``close()``.
    var writer: Writer {
        get throws(PaymentStoreError) {
            switch state.withLock({ $0 }) {
            case .writable(let writer, _, _): return writer
            case .readOnly: throw Self.noRoom
            case .opening: throw Self.opening
            case .closed: throw .unavailable(reason: "It is closed.")
            }
        }
    }

    var reader: (Reader, DatabaseFilePlace) {
        get throws(PaymentStoreError) {
            switch state.withLock({ $0 }) {
            case .writable(_, let reader, let place), .readOnly(let reader, let place): return (reader, place)
            case .opening: throw Self.opening
            case .closed: throw .unavailable(reason: "It is closed.")
            }
        }
    }

    private static let noRoom = PaymentStoreError.unavailable(
        reason: "Its file system is full, so it can only be read; free some space.")
    private static let opening = PaymentStoreError.unavailable(
        reason: "Its file system was full, and it is being opened for writing.")

    /// Opens the file for writing if it is open only for reading, because the disk was full.
    func openForWriting() async throws(PaymentStoreError) {
        guard case .readOnly = state.withLock({ $0 }) else { return }
        try await onThread { [self] () throws(PaymentStoreError) in
            try changes.withLock { _ in Result { try openAgain() }.mapError { PaymentStoreError($0) } }.get()
        }
    }

    private func openAgain() throws {
        guard case .readOnly(let reader, let place) = state.withLock({ $0 }) else { return }
        try place.requireUnchanged()
        let found = try FileManager.default.attributesOfFileSystem(forPath: path)[.systemFreeSize] as? NSNumber
        guard (found?.int64Value ?? .max) >= Self.minimumFreeBytes else { throw Self.noRoom }
        // The reader has exclusive access to the file, and must be closed before two connections can open it.
        state.withLock { $0 = .opening }
        do {
            try reader.close()
        } catch {
            state.withLock { $0 = .readOnly(reader, place) }
            throw error
        }
        var new = State.closed
        defer { state.withLock { $0 = new } }
        do {
            new = try Self.openWritable(path, deadlines)
        } catch {
            new = try Self.openReadOnly(path, deadlines)
            throw error
        }
    }

    /// Closes the connections; blocks until the current operations have ended. If a connection cannot be closed, it is
    /// closed when the process ends.
    func close() {
        changes.withLock { _ in closeAll() }
    }

    private func closeAll() {
        let last = state.withLock { state in
            defer { state = .closed }
            return state
        }
        switch last {
        case .writable(let writer, let reader, _):
            writer.writes.close()
            try? reader.close()
            try? writer.close()
        case .readOnly(let reader, _): try? reader.close()
        case .opening, .closed: break
        }
    }
}

/// Batches of changes that share no state: each change of a payment depends only on the rows that it reads.
struct PaymentBatches: SQLiteBatches {
    typealias Failure = PaymentStoreError

    func begin(_ db: Database) {}
}

extension DatabaseError {
    /// True if a full disk may have caused the error. If SQLite cannot enlarge its shared memory on a full disk, it
    /// reports an I/O error.
    fileprivate var isLackOfRoom: Bool {
        [.SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CANTOPEN].contains(resultCode)
    }
}
