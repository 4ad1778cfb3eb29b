import CommandOutput
import Foundation
import Glibc

// Unsafe: The system calls use their paths only until they return.

/// A file that appears either complete or not at all. It replaces another one only if the caller says so.
///
/// While it grows, `.partial` is appended to its name, and by default only its owner can read it. ``publish()`` gives
/// it its final name once all of it is on disk. If this object is released before that, the partial file is removed.
final class NewFile {
    let path: String
    private let partial: String
    private var descriptor: Int32
    /// The directory with a lock on it, if the file replaces another one; otherwise negative.
    private let lock: Int32

    /// - Parameters:
    ///   - mode: the permission bits, reduced by the umask.
    ///   - replacing: true to replace a file of that name. Until this object is released, no other command replaces a file in
    ///     the directory, so that the caller may read the old file meanwhile. The umask does not count.
    init(_ path: String, mode: mode_t = 0o600, replacing: Bool = false) throws {
        guard replacing || !Self.isThere(path) else { throw Self.taken(path) }
        lock = try replacing ? Self.lock(directoryOf: path) : -1
        let partial = path + ".partial"
        // With the lock, an existing partial file is the remains of a command that was killed.
        if replacing { _ = unsafe unlink(partial) }
        let descriptor = unsafe open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode)
        // The umask may have removed permissions that other accounts need.
        guard descriptor >= 0, !replacing || fchmod(descriptor, mode) == 0 else {
            let errno = errno
            if lock >= 0 { close(lock) }
            guard errno == EEXIST else { throw Self.failure("\(partial) cannot be made", errno) }
            throw CommandFailure(
                .unreadable,
                "\(partial) is there already: another command is writing it, or one was killed. Remove it if no other "
                    + "is running.")
        }
        self.path = path
        self.partial = partial
        self.descriptor = descriptor
    }

    deinit {
        discard()
        if lock >= 0 { close(lock) }
    }

    func write(_ bytes: [UInt8]) throws {
        do {
            try Descriptor.write(bytes, to: descriptor)
        } catch {
            throw Self.failure("\(partial) cannot be written", error.number)
        }
    }

    /// Gives the file its final name once all of it is on disk.
    func publish() throws {
        guard fsync(descriptor) == 0 else { throw Self.failure("\(partial) cannot be written", errno) }
        if lock >= 0 {
            guard unsafe rename(partial, path) == 0 else { throw Self.failure("\(path) cannot be replaced", errno) }
            close(descriptor)
            descriptor = -1
            return syncDirectory()
        }
        // link(2), because rename(2) would replace a file that was created in the meantime.
        if unsafe link(partial, path) == 0 {
            discard()
        } else if errno == EEXIST {
            throw Self.taken(path)
        } else if [EPERM, ENOSYS, EOPNOTSUPP].contains(errno), !Self.isThere(path) {
            // File systems on USB sticks have no hard links.
            guard unsafe rename(partial, path) == 0 else { throw Self.failure("\(path) cannot be made", errno) }
            discard()
        } else {
            throw Self.failure("\(path) cannot be made", errno)
        }
        syncDirectory()
    }

    /// Removes the file unless it is published.
    func discard() {
        guard descriptor >= 0 else { return }
        close(descriptor)
        descriptor = -1
        _ = unsafe unlink(partial)
    }

    /// Syncs the directory, and so the new name, to the disk. Errors are ignored: a file system on which a directory
    /// cannot be synced writes the name itself.
    private func syncDirectory() {
        let descriptor = Self.directory(of: path)
        guard descriptor >= 0 else { return }
        _ = fsync(descriptor)
        close(descriptor)
    }

    private static func directory(of path: String) -> Int32 {
        let directory = URL(filePath: path).deletingLastPathComponent().path(percentEncoded: false)
        return unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    }

    private static func lock(directoryOf path: String) throws -> Int32 {
        let directory = directory(of: path)
        guard directory >= 0 else { throw failure("The directory of \(path) cannot be read", errno) }
        guard flock(directory, LOCK_EX | LOCK_NB) == 0 else {
            close(directory)
            throw CommandFailure(.tryAgainLater, "Another command is replacing a file in the directory of \(path).")
        }
        return directory
    }

    /// Returns true if anything has this path. A symbolic link counts even if its target does not exist.
    private static func isThere(_ path: String) -> Bool {
        (try? FileManager.default.attributesOfItem(atPath: path)) != nil
    }

    private static func taken(_ path: String) -> CommandFailure {
        CommandFailure(.unreadable, "\(path) is there already, and is not overwritten. Name another file.")
    }

    private static func failure(_ what: String, _ number: Int32) -> CommandFailure {
        let failure = DescriptorFailure(number: number)
        return CommandFailure(failure.exitStatus, "\(what): \(failure.reason).")
    }
}
