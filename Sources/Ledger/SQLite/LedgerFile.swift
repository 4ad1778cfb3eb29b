import Foundation
import Glibc

/// The ledger's place in the file system: nobody but the daemon's account may read the file or put another in its
/// place.
struct LedgerFile {
    let path: String

    /// Checks directory and file, and makes the file, empty and 0600, when there is none. SQLite gives its own side
    /// files the same mode.
    func prepare() throws(LedgerOpeningError) {
        let resolved = URL(filePath: path).deletingLastPathComponent().resolvingSymlinksInPath()
        let directory = resolved.path(percentEncoded: false).trimmingTrailingSlash
        guard let place = attributes(directory), place.type == .typeDirectory else {
            throw .noDirectory(path: directory)
        }
        guard place.mode & 0o022 == 0 else {
            throw .notPrivate(
                path: directory, why: "can be written by others (mode \(octal(place.mode))); use chmod go-w")
        }
        guard place.owner == Int(geteuid()) || place.owner == 0 else {
            throw .notPrivate(path: directory, why: "belongs to uid \(place.owner), not to the daemon or root")
        }
        try makePrivate(path)
    }

    private func makePrivate(_ path: String) throws(LedgerOpeningError) {
        guard let file = attributes(path) else {
            guard FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
            else { throw .cannotOpen(path: path, reason: "the file cannot be created; look at its directory's owner.") }
            return
        }
        guard file.type == .typeRegular else { throw .notPrivate(path: path, why: "is not a regular file") }
        guard file.mode & 0o077 == 0 else {
            throw .notPrivate(path: path, why: "can be used by others (mode \(octal(file.mode))); use chmod 0600")
        }
        guard file.owner == Int(geteuid()) else {
            throw .notPrivate(path: path, why: "belongs to uid \(file.owner), not to the daemon")
        }
    }

    /// The lock that one process holds for as long as it uses the ledger. Its file stays: unlinking it would let two
    /// processes each lock a file of that name.
    func lock() throws(LedgerOpeningError) -> LedgerLock {
        let lockPath = path + ".lock"
        try makePrivate(lockPath)
        guard let handle = FileHandle(forUpdatingAtPath: lockPath) else {
            throw .cannotOpen(path: lockPath, reason: "the lock's file cannot be opened; look at its owner and mode.")
        }
        // Not for children: a worker that outlives the daemon must not keep its lock.
        guard fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC) == 0 else {
            throw .cannotOpen(path: lockPath, reason: "the lock's descriptor cannot be kept from children.")
        }
        guard flock(handle.fileDescriptor, LOCK_EX | LOCK_NB) == 0 else {
            if errno == EWOULDBLOCK { throw .inUse(path: path) }
            throw .cannotOpen(path: lockPath, reason: "flock failed with error number \(errno).")
        }
        return LedgerLock(handle: handle)
    }

    private func attributes(_ path: String) -> (type: FileAttributeType, mode: Int, owner: Int)? {
        guard let found = try? FileManager.default.attributesOfItem(atPath: path),
            let type = found[.type] as? FileAttributeType,
            let mode = (found[.posixPermissions] as? NSNumber)?.intValue,
            let owner = (found[.ownerAccountID] as? NSNumber)?.intValue
        else { return nil }
        return (type, mode, owner)
    }

    private func octal(_ mode: Int) -> String { "0" + String(mode, radix: 8) }
}

/// Held for life: it ends with ``release()``, or with the process however that ends.
struct LedgerLock: Sendable {
    fileprivate let handle: FileHandle

    func release() {
        try? handle.close()
    }
}

extension String {
    fileprivate var trimmingTrailingSlash: String { count > 1 && hasSuffix("/") ? String(dropLast()) : self }
}
