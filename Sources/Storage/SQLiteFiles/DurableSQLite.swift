package import Dispatch
package import Foundation
package import GRDB

/// Connections to a database whose commits have reached the disk when they return.
package enum DurableSQLite {
    /// GRDB's own choice is a higher one. libdispatch then raises the threads' priority, which an ordinary user may not,
    /// and says so on standard error each time.
    package static let threadQuality = DispatchQoS.default

    /// The one connection that writes, with the settings on which a commit's durability depends; blocks.
    ///
    /// - Parameter checkpointPages: at how many pages of write-ahead log a commit copies it into the file.
    package static func writing(
        _ path: String, label: String, checkpointPages: Int, busyTimeout: TimeInterval
    ) throws -> DatabaseQueue {
        var configuration = configuration(label, busyTimeout)
        configuration.foreignKeysEnabled = true
        // Otherwise GRDB ends the process when a rollback fails and leaves its transaction open; ``GRDB/Database/durably(_:)``
        // deals with that.
        configuration.allowsUnsafeTransactions = true
        // Not GRDB's own journal modes: asked for WAL, it lowers synchronous to NORMAL, with which a loss of power
        // takes back the last commits.
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL")
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(checkpointPages)")
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// A connection that only reads; blocks.
    package static func reading(_ path: String, label: String, busyTimeout: TimeInterval) throws -> DatabaseQueue {
        var configuration = configuration(label, busyTimeout)
        configuration.readonly = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// A connection that only reads and has the file for itself, for which SQLite makes no file of shared memory; blocks.
    package static func readingAlone(_ path: String, label: String, busyTimeout: TimeInterval) throws -> DatabaseQueue {
        var configuration = configuration(label, busyTimeout)
        configuration.prepareDatabase { db in
            // Before the first access. A connection that is opened for reading only cannot take the lock.
            try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            try db.execute(sql: "PRAGMA query_only = ON")
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// The settings that all connections have.
    private static func configuration(_ label: String, _ busyTimeout: TimeInterval) -> Configuration {
        var configuration = Configuration()
        configuration.label = label
        configuration.qos = threadQuality
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA trusted_schema = OFF")
            // Savepoints need no room in a directory for temporary files, which may be full or not writable.
            try db.execute(sql: "PRAGMA temp_store = MEMORY")
        }
        return configuration
    }

    /// Checks the settings that are in force, which need not be those that were asked for.
    package static func requireDurability(_ db: Database, path: String) throws {
        let journal = try String.fetchOne(db, sql: "PRAGMA journal_mode")
        guard journal == "wal" else {
            throw DatabaseFileError.notDurable(
                path: path, why: "SQLite uses the journal mode \(journal ?? "unknown") there, not wal")
        }
        let synchronous = try Int.fetchOne(db, sql: "PRAGMA synchronous")
        guard synchronous == 2 else {
            throw DatabaseFileError.notDurable(path: path, why: "SQLite's synchronous setting is not FULL")
        }
    }
}

/// A transaction failed, and its rollback too, as when a disk vanishes.
package struct TransactionLeftOpen: Error, Sendable {}

extension Database {
    /// BEGIN IMMEDIATE … COMMIT: the lock is taken first, so that what is read inside stays true until the commit.
    package func durably<T>(_ body: () throws -> T) throws -> T {
        try leaveTransaction()
        var result: Result<T, any Error>?
        try inTransaction(.immediate) {
            result = .success(try body())
            return .commit
        }
        guard let result else { throw TransactionLeftOpen() }
        return try result.get()
    }

    /// A rollback can fail together with its transaction, when a disk vanishes. Until it has succeeded, reads see what was
    /// never committed, and no other transaction can begin.
    package func leaveTransaction() throws {
        if isInsideTransaction { try rollback() }
        guard !isInsideTransaction else {
            throw TransactionLeftOpen()
        }
    }
}
