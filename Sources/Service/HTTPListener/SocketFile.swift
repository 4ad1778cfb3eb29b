import CLinux
import Glibc
package import HostSystem

// Unsafe: The system calls use paths and structures only until they return.

/// A socket file that this process bound, and may unlink again while it is still the same file.
package struct SocketFile: Sendable, Equatable {
    package let path: String
    private let device: UInt64
    private let inode: UInt64

    /// The length of the kernel's queue of connections. net.core.somaxconn, by default the same, may reduce it.
    package static let backlog: CInt = 4096

    /// Binds and listens on `path`. No peer can connect before mode and group are set: the file is created without any
    /// permissions (the kernel uses the socket's own mode for the file), whatever the umask.
    ///
    /// A socket file on which no process listens any more is replaced; anything else at that path is left alone.
    /// - Returns: the listening descriptor, close-on-exec.
    package static func listen(
        path: String, mode: UInt32, group: Account?
    ) throws(ListenerError) -> (descriptor: CInt, file: SocketFile) {
        let directory = try openDirectory(of: path)
        // Two daemons that start together must not both take the other's new socket for a stale one. Another user who may
        // read the directory could hold this lock, so the wait for it is short: it only breaks a tie.
        for _ in 0..<100 where flock(directory, LOCK_EX | LOCK_NB) != 0 { usleep(20_000) }
        defer { close(directory) }
        try removeStale(path)

        let descriptor = try newSocket(path)
        do throws(ListenerError) {
            guard fchmod(descriptor, 0) == 0 else { throw failure("fchmod", path) }
            let bound = unsafe paytokend_unix_bind(descriptor, path)
            guard bound == 0 else {
                throw bound == EADDRINUSE ? .alreadyServed(path: path) : failure("bind", path, errno: bound)
            }
            let file = try permit(path, mode: mode, group: group)
            guard Glibc.listen(descriptor, backlog) == 0 else { throw failure("listen", path) }
            return (descriptor, file)
        } catch {
            close(descriptor)
            throw error
        }
    }

    /// Checks that ``listen(path:mode:group:)`` can use `path`: its directory, and any file at the path. Changes nothing, and
    /// does not check if another process serves the socket.
    package static func examine(path: String) throws(ListenerError) {
        close(try openDirectory(of: path))
        _ = try isSocket(path)
    }

    /// Removes the file unless another one has replaced it.
    package func unlinkIfOurs() {
        var status = stat()
        guard unsafe lstat(path, &status) == 0, UInt64(status.st_dev) == device, UInt64(status.st_ino) == inode
        else { return }
        unsafe unlink(path)
    }

    private static func openDirectory(of path: String) throws(ListenerError) -> CInt {
        let parent = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let descriptor = unsafe open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else {
            let reason = SystemError.message(for: errno)
            throw .unusable(
                "the directory \(parent) of the socket \(path) cannot be opened (\(reason)); create it, writable "
                    + "for the daemon's user only (systemd: RuntimeDirectory=)")
        }
        return descriptor
    }

    /// Returns false if there is nothing at the path.
    /// - Throws: if there is anything but a socket.
    private static func isSocket(_ path: String) throws(ListenerError) -> Bool {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else {
            if errno == ENOENT { return false }
            throw failure("lstat", path)
        }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw .unusable("\(path) exists and is not a socket; move it away, or configure another path")
        }
        return true
    }

    /// Removes a socket file on which no process listens.
    private static func removeStale(_ path: String) throws(ListenerError) {
        guard try isSocket(path) else { return }
        let probe = try newSocket(path)
        defer { close(probe) }
        switch unsafe paytokend_unix_connect(probe, path) {
        case ECONNREFUSED:
            guard unsafe unlink(path) == 0 || errno == ENOENT else { throw failure("unlink", path) }
        case ENOENT: return
        // EAGAIN: another process listens, and more connections wait than it accepts.
        case 0, EAGAIN: throw .alreadyServed(path: path)
        case let error: throw failure("connect", path, errno: error)
        }
    }

    private static func newSocket(_ path: String) throws(ListenerError) -> CInt {
        let flags = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_UNIX, flags, 0)
        guard descriptor >= 0 else { throw failure("socket", path) }
        return descriptor
    }

    /// Sets the new file's group and mode through a descriptor, so that a symbolic link put in its place gets none.
    private static func permit(
        _ path: String, mode: UInt32, group: Account?
    ) throws(ListenerError) -> SocketFile {
        let handle = unsafe open(path, paytokend_o_path | O_NOFOLLOW | O_CLOEXEC)
        guard handle >= 0 else { throw failure("open", path) }
        defer { close(handle) }
        var status = stat()
        guard unsafe fstat(handle, &status) == 0 else { throw failure("fstat", path) }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw .unusable("\(path) was replaced while it was made; keep others from writing to its directory")
        }
        let file = SocketFile(path: path, device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
        do throws(ListenerError) {
            if let group, unsafe fchownat(handle, "", uid_t.max, group.id, paytokend_at_empty_path) != 0 {
                throw .unusable(
                    "\(path) cannot be given to group \(group.name) (\(SystemError.message(for: errno))); add the "
                        + "daemon's user to that group")
            }
            // fchmod(2) refuses O_PATH descriptors; the link in /proc leads to the same file.
            guard unsafe chmod("/proc/self/fd/\(handle)", mode) == 0 else { throw failure("chmod", path) }
        } catch {
            file.unlinkIfOurs()
            throw error
        }
        return file
    }

    private static func failure(_ call: String, _ path: String, errno code: CInt = errno) -> ListenerError {
        let advice =
            switch code {
            case EACCES, EPERM, EROFS: "; let the daemon's user write to its directory"
            case ENAMETOOLONG: "; a socket's path has at most 107 bytes"
            default: ""
            }
        return .unusable("cannot listen on \(path): \(SystemError(call: call, errno: code))\(advice)")
    }
}
