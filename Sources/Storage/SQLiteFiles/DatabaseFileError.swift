/// The reason why a database's file cannot be used. The program that opens the file adds its purpose.
package enum DatabaseFileError: Error, Sendable, Equatable {
    case noDirectory(path: String)
    /// The owner, mode or type of the directory or the file lets other accounts change or read it.
    case notPrivate(path: String, why: String)
    /// Another process uses the database.
    case inUse(path: String)
    /// SQLite does not promise durability on this file system.
    case notDurable(path: String, why: String)
    case cannotOpen(path: String, reason: String)
    /// The disk is full or read-only. A later attempt may succeed with the same configuration.
    case notNow(path: String, reason: String)
}

/// The files were removed or replaced while they were in use.
package struct DatabaseFileReplaced: Error, Sendable, Equatable, CustomStringConvertible {
    package let path: String

    package var description: String {
        "\(path) or its -wal was removed or replaced while it was in use, so nothing is written. Put the files back, or stop "
            + "the program and start it on those that are there."
    }
}
