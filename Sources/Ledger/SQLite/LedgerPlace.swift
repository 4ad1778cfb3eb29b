import Glibc

/// The files of an open ledger, as they stood when it was opened.
///
/// SQLite goes on with the files that it has open when somebody removes them or puts others in their place, a restored
/// copy say. What it commits from then on is gone with the process, and a transaction would be released again.
struct LedgerPlace: Sendable {
    let path: String
    private let opened: [FileIdentity?]

    /// Call when the database is open: SQLite's log of what is committed exists from then on, until it is closed.
    init(path: String) {
        self.path = path
        opened = Self.files(of: path)
    }

    func requireUnchanged() throws(LedgerFailure) {
        guard Self.files(of: path) == opened else {
            throw .unavailable(
                reason: "\(path) or its -wal was removed or replaced while it was in use, so nothing is written. Put "
                    + "the files back, or stop the daemon and start it on those that are there.")
        }
    }

    private static func files(of path: String) -> [FileIdentity?] {
        [FileIdentity(path: path), FileIdentity(path: path + "-wal")]
    }
}

/// Which file stands at a path, whatever its name.
private struct FileIdentity: Sendable, Equatable {
    private let device: UInt
    private let inode: UInt

    /// nil when there is none, or none that can be seen.
    init?(path: String) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { return nil }
        (device, inode) = (UInt(status.st_dev), UInt(status.st_ino))
    }
}
