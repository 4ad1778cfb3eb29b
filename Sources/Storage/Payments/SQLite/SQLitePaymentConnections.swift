import DatabaseKit
import Foundation
import GRDB
import SQLiteFiles
import Synchronization

/// The two connections to the file of payments, one that writes and one that reads.
///
/// On a full disk a file that was closed cleanly cannot be opened for two connections: SQLite makes the memory that they share
/// (`-shm`) as a file. One connection that has the file for itself needs none. It then reads what is known, and every change
/// is refused until there is room.
final class SQLitePaymentConnections: Sendable {
    private enum State {
        case whole(Writer, Reader, DatabaseFilePlace)
        case withoutRoom(Reader, DatabaseFilePlace)
        case closed
    }

    typealias Writer = SQLiteWriter<PaymentBatches>
    typealias Reader = SQLiteReader<PaymentStoreError>

    private let path: String
    let deadlines: Deadlines<PaymentStoreError>
    private let state: Mutex<State>

    /// A full disk or another program's lock is waited for so long; seconds.
    private static let busyTimeout: TimeInterval = 2
    /// Pages of write-ahead log after which a commit copies it into the file.
    private static let checkpointPages = 1000
    /// Free bytes without which opening the file for writing is not tried: the shared memory and a payment's commits.
    private static let leastRoom: Int64 = 256 << 10

    /// More wait only for a disk that hangs.
    private static let capacity = 1024

    /// Opens the file, in which the tables are made where there are none; blocks.
    ///
    /// - Throws: ``PaymentStoreOpeningError``, and GRDB's errors.
    init(path: String, deadlines: Deadlines<PaymentStoreError>) throws {
        self.path = path
        self.deadlines = deadlines
        do {
            state = Mutex(try Self.whole(path, deadlines))
        } catch let error as DatabaseError where error.isLackOfRoom {
            guard let reading = try? Self.withoutRoom(path, deadlines) else { throw error }
            state = Mutex(reading)
        }
    }

    private static func whole(_ path: String, _ deadlines: Deadlines<PaymentStoreError>) throws -> State {
        let connection = try DurableSQLite.writing(
            path, label: "payments.writer", checkpointPages: checkpointPages, busyTimeout: busyTimeout)
        try connection.writeWithoutTransaction { db in
            try DurableSQLite.requireDurability(db, path: path)
            try SQLitePaymentSchema.prepare(db, path: path)
            do {
                // The lock shows that the attempts' gateway has ended: their deadlines need not be waited for, nor a clock believed.
                try db.durably {
                    try db.execute(sql: "UPDATE payment SET deadline = 0 WHERE state IN ('received', 'submitting')")
                }
            } catch let error as DatabaseError where error.isLackOfRoom {
                // Their deadlines then count.
                try db.leaveTransaction()
            }
        }
        let reader = try DurableSQLite.reading(path, label: "payments.reader", busyTimeout: busyTimeout)
        let place = DatabaseFilePlace(path: path)
        let writer = Writer(
            connection, place: place, writes: CommitQueue(capacity: capacity, deadlines: deadlines), PaymentBatches())
        return .whole(writer, Reader(reader, deadlines: deadlines), place)
    }

    /// - Throws: where the file cannot be read, or holds another schema's tables.
    private static func withoutRoom(_ path: String, _ deadlines: Deadlines<PaymentStoreError>) throws -> State {
        let reader = try DurableSQLite.readingAlone(path, label: "payments.reader", busyTimeout: busyTimeout)
        try reader.read { db in
            guard try Int.fetchOne(db, sql: "SELECT schema_version FROM payment_store") == SQLitePaymentSchema.version
            else { throw PaymentStoreOpeningError.notAStore(place: path) }
        }
        return .withoutRoom(Reader(reader, deadlines: deadlines), DatabaseFilePlace(path: path))
    }

    /// - Throws: `unavailable` while there is no room to write.
    var writer: Writer {
        get throws(PaymentStoreError) {
            switch state.withLock({ $0 }) {
            case .whole(let writer, _, _): return writer
            case .withoutRoom: throw Self.noRoom
            case .closed: throw .unavailable(reason: "It is closed.")
            }
        }
    }

    var reader: (Reader, DatabaseFilePlace) {
        get throws(PaymentStoreError) {
            switch state.withLock({ $0 }) {
            case .whole(_, let reader, let place), .withoutRoom(let reader, let place): return (reader, place)
            case .closed: throw .unavailable(reason: "It is closed.")
            }
        }
    }

    private static let noRoom = PaymentStoreError.unavailable(
        reason: "Its file system is full, so that it is open for reading alone; make room.")

    /// Has the file open for writing, where there was no room for that before.
    func openForWriting() async throws(PaymentStoreError) {
        guard case .withoutRoom = state.withLock({ $0 }) else { return }
        try await onThread { [self] () throws(PaymentStoreError) in
            try state.withLock { state in Result { try openForWriting(&state) }.mapError { PaymentStoreError($0) } }
                .get()
        }
    }

    private func openForWriting(_ state: inout State) throws {
        guard case .withoutRoom(let reader, let place) = state else { return }
        try place.requireUnchanged()
        let found = try FileManager.default.attributesOfFileSystem(forPath: path)[.systemFreeSize] as? NSNumber
        guard (found?.int64Value ?? .max) >= Self.leastRoom else { throw Self.noRoom }
        // It has the file for itself.
        try reader.close()
        state = .closed
        do {
            state = try Self.whole(path, deadlines)
        } catch {
            state = try Self.withoutRoom(path, deadlines)
            throw error
        }
    }

    /// Blocks until what is under way has ended. A connection that will not close is closed by the process's end.
    func close() {
        let last = state.withLock { state in
            defer { state = .closed }
            return state
        }
        switch last {
        case .whole(let writer, let reader, _):
            writer.writes.close()
            try? reader.close()
            try? writer.close()
        case .withoutRoom(let reader, _): try? reader.close()
        case .closed: break
        }
    }
}

/// A payment's changes hand on nothing to those of other payments.
struct PaymentBatches: SQLiteBatches {
    typealias Failure = PaymentStoreError

    func begin(_ db: Database) {}
}

extension DatabaseError {
    /// Whether a full disk may be the reason; an I/O error is, where SQLite cannot make its shared memory larger.
    fileprivate var isLackOfRoom: Bool {
        [.SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CANTOPEN].contains(resultCode)
    }
}
