import Foundation
import Glibc

// Unsafe: The system calls use paths and structures only until they return.

/// A database file that only the program's own account may read or replace.
package struct PrivateDatabaseFile {
    /// The absolute path.
    package let path: String

    package init(path: String) { self.path = path }

    /// Checks the directory, takes the lock, and then creates an empty file with mode 0600 if there is none.
    ///
    /// The lock must be taken before the file is opened. A process that closes any descriptor of a database file
    /// releases the locks that SQLite holds for that process. So the program must not even open a file that it already
    /// uses.
    package func prepare() throws(DatabaseFileError) -> DatabaseFileLock {
        let lock = try lock()
        do throws(DatabaseFileError) {
            close(try makePrivately(path))
        } catch {
            lock.release()
            throw error
        }
        return lock
    }

    /// Performs the checks of ``prepare()`` without creating a file. Does not check whether another process uses the
    /// database. A process that has the database open must not call this method, because closing a descriptor releases
    /// SQLite's locks.
    package func examine() throws(DatabaseFileError) {
        try requirePrivateDirectory()
        for file in [path + ".lock", path] {
            if let descriptor = try openPrivately(file, flags: O_RDWR) { close(descriptor) }
        }
    }

    /// Checks the directory and takes the lock, without opening or creating the database file.
    package func lock() throws(DatabaseFileError) -> DatabaseFileLock {
        try requirePrivateDirectory()
        let lock = DatabaseFileLock(descriptor: try makePrivately(path + ".lock"))
        guard flock(lock.descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let error = errno
            lock.release()
            if error == EWOULDBLOCK { throw .inUse(path: path) }
            throw .cannotOpen(path: path + ".lock", reason: "flock failed with error number \(error).")
        }
        return lock
    }

    private func requirePrivateDirectory() throws(DatabaseFileError) {
        let parent = URL(filePath: path).deletingLastPathComponent().resolvingSymlinksInPath().path(
            percentEncoded: false)
        let directory = parent.count > 1 && parent.hasSuffix("/") ? String(parent.dropLast()) : parent
        guard let found = try? FileManager.default.attributesOfItem(atPath: directory),
            found[.type] as? FileAttributeType == .typeDirectory,
            let mode = (found[.posixPermissions] as? NSNumber)?.intValue,
            let owner = (found[.ownerAccountID] as? NSNumber)?.uint32Value
        else { throw .noDirectory(path: directory) }
        guard mode & 0o022 == 0 else {
            throw .notPrivate(path: directory, why: "can be written by others (mode \(octal(mode))); use chmod go-w")
        }
        guard owner == geteuid() || owner == 0 else {
            throw .notPrivate(
                path: directory, why: "belongs to uid \(owner), neither to this program's account nor to root")
        }
    }

    /// Opens a file, or creates it with mode 0600.
    private func makePrivately(_ path: String) throws(DatabaseFileError) -> Int32 {
        guard let descriptor = try openPrivately(path, flags: O_RDWR | O_CREAT) else {
            throw .cannotOpen(path: path, reason: "its directory is gone.")
        }
        return descriptor
    }

    /// Opens a file without following a symbolic link. Checks owner and mode through the descriptor, so that no other
    /// process can replace the file between check and use. SQLite creates the -wal and -shm files with the mode of the
    /// database file.
    ///
    /// - Returns: the descriptor; nil if the file does not exist and `flags` does not contain O_CREAT.
    private func openPrivately(_ path: String, flags: Int32) throws(DatabaseFileError) -> Int32? {
        let descriptor = unsafe open(path, flags | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw switch errno {
            case ELOOP, EISDIR: .notPrivate(path: path, why: "is not a regular file")
            case EACCES, EPERM: .cannotOpen(path: path, reason: "permission denied; check its owner and mode.")
            case EROFS: .notNow(path: path, reason: "its file system is read-only.")
            case ENOSPC, EDQUOT: .notNow(path: path, reason: "its file system is full.")
            default: .cannotOpen(path: path, reason: "open failed with error number \(errno).")
            }
        }
        do throws(DatabaseFileError) {
            var status = stat()
            guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
                throw .notPrivate(path: path, why: "is not a regular file")
            }
            guard status.st_mode & 0o077 == 0 else {
                let mode = octal(Int(status.st_mode & 0o7777))
                throw .notPrivate(path: path, why: "can be used by others (mode \(mode)); use chmod 0600")
            }
            guard status.st_uid == geteuid() else {
                throw .notPrivate(path: path, why: "belongs to uid \(status.st_uid), not to this program's account")
            }
        } catch {
            close(descriptor)
            throw error
        }
        return descriptor
    }

    private func octal(_ mode: Int) -> String { "0" + String(mode, radix: 8) }
}

/// The lock of the only process that may use the database. It ends with ``release()`` or with the process. Child
/// processes do not inherit it, because a child may outlive the program.
///
/// The lock file is never removed. Otherwise two processes could each lock a different file of the same name.
package struct DatabaseFileLock: Sendable {
    fileprivate let descriptor: Int32

    /// Releases the lock. Must be called only once, because the descriptor's number may belong to another file
    /// afterwards.
    package func release() {
        // Closing the descriptor does not suffice: a forked child that has not executed its program yet has a copy of
        // it.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}
