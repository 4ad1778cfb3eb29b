/// The reason why a database file cannot be used. The program that opens the file adds the file's purpose to the
/// message.
package enum DatabaseFileError: Error, Sendable, Equatable {
    case noDirectory(path: String)
    /// The directory or the file has an owner, a mode or a type that lets other accounts read or change it.
    case notPrivate(path: String, why: String)
    /// Another process uses the database.
    case inUse(path: String)
    /// SQLite does not promise durability on this file system.
    case notDurable(path: String, why: String)
    case cannotOpen(path: String, reason: String)
    /// The disk is full or read-only. A later attempt may succeed with the same configuration.
    case notNow(path: String, reason: String)
}

/// The error for database files that were removed or replaced while they were in use.
package struct DatabaseFileReplaced: Error, Sendable, Equatable, CustomStringConvertible {
    package let path: String

    package var description: String {
        "\(path) or its -wal was removed or replaced while it was in use, so nothing is written. Put the files back, or stop "
            + "the program and start it on those that are there."
    }
}
