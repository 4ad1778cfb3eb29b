import CommandOutput
import Foundation
import Glibc

// Unsafe: The system calls use their paths only until they return.

/// A file that appears either complete or not at all, and never replaces another one.
///
/// While it grows, `.partial` is appended to its name, and by default only its owner can read it. ``publish()`` gives
/// it its final name once all of it is on disk. If this object is released before that, the partial file is removed.
final class NewFile {
    let path: String
    private let partial: String
    private var descriptor: Int32

    /// - Parameter mode: the permission bits, reduced by the umask.
    init(_ path: String, mode: mode_t = 0o600) throws {
        guard !Self.isThere(path) else { throw Self.taken(path) }
        let partial = path + ".partial"
        let descriptor = unsafe open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode)
        guard descriptor >= 0 else {
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

    deinit { discard() }

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
        let directory = URL(filePath: path).deletingLastPathComponent().path(percentEncoded: false)
        let descriptor = unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        _ = fsync(descriptor)
        close(descriptor)
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
