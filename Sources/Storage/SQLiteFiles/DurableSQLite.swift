package import Dispatch
package import Foundation
package import GRDB

/// Connections to a database whose commits have reached the disk when they return.
package enum DurableSQLite {
    /// The priority of the threads. GRDB's default is a higher one, for which libdispatch raises the threads' priority;
    /// an ordinary user may not do that, and each try writes a message to standard error.
    package static let threadQuality = DispatchQoS.default

    /// The one connection that writes, with the settings that a commit's durability depends on; blocks.
    ///
    /// - Parameter checkpointPages: the number of pages in the write-ahead log at which a commit copies it into the
    ///   file.
    package static func writing(
        _ path: String, label: String, checkpointPages: Int, busyTimeout: TimeInterval
    ) throws -> DatabaseQueue {
        var configuration = configuration(label, busyTimeout)
        configuration.foreignKeysEnabled = true
        // Otherwise GRDB ends the process if a rollback fails and leaves its transaction open;
        // ``GRDB/Database/durably(_:)`` handles that.
        configuration.allowsUnsafeTransactions = true
        // Not with GRDB's own journal modes: for WAL it lowers synchronous to NORMAL, with which a loss of power undoes
        // the last commits.
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

    /// A connection that only reads and has exclusive access to the file, for which SQLite creates no file of shared
    /// memory; blocks.
    package static func readingAlone(_ path: String, label: String, busyTimeout: TimeInterval) throws -> DatabaseQueue {
        var configuration = configuration(label, busyTimeout)
        configuration.prepareDatabase { db in
            // Before the first access. A connection that is opened read-only cannot take the lock.
            try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            try db.execute(sql: "PRAGMA query_only = ON")
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// The settings of all connections.
    private static func configuration(_ label: String, _ busyTimeout: TimeInterval) -> Configuration {
        var configuration = Configuration()
        configuration.label = label
        configuration.qos = threadQuality
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA trusted_schema = OFF")
            // So savepoints need no room in a directory for temporary files, which may be full or read-only.
            try db.execute(sql: "PRAGMA temp_store = MEMORY")
        }
        return configuration
    }

    /// Checks the settings that are in force, which may differ from those that were requested.
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

/// A transaction failed, and its rollback too, for example because a disk disappeared.
package struct TransactionLeftOpen: Error, Sendable {}

extension Database {
    /// BEGIN IMMEDIATE … COMMIT: takes the lock first, so that what it reads stays true until the commit.
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

    /// Rolls back a transaction that is still open. A rollback can fail together with its transaction, for example if a
    /// disk disappears. Until it has succeeded, reads see uncommitted changes, and no other transaction can begin.
    package func leaveTransaction() throws {
        if isInsideTransaction { try rollback() }
        guard !isInsideTransaction else {
            throw TransactionLeftOpen()
        }
    }
}
