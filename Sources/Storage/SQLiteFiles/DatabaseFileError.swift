/// Why a database's file cannot be used. Who opens it says what the file is to people.
package enum DatabaseFileError: Error, Sendable, Equatable {
    case noDirectory(path: String)
    /// The directory's or the file's owner, mode or type lets others change or read it.
    case notPrivate(path: String, why: String)
    /// Another process has it.
    case inUse(path: String)
    /// SQLite does not promise durability there.
    case notDurable(path: String, why: String)
    case cannotOpen(path: String, reason: String)
    /// A full disk or a read-only one: it may open later as it is.
    case notNow(path: String, reason: String)
}

/// The files were removed, or others put in their place, while they were in use.
package struct DatabaseFileReplaced: Error, Sendable, Equatable, CustomStringConvertible {
    package let path: String

    package var description: String {
        "\(path) or its -wal was removed or replaced while it was in use, so nothing is written. Put the files back, or stop "
            + "the program and start it on those that are there."
    }
}
