import Glibc
package import HostSystem

/// Storage for the lines of the log.
package protocol LogStorage: Sendable {
    /// Appends all of these bytes, or throws if some of them may be missing.
    func append(_ bytes: [UInt8]) throws(SystemError)
    /// Returns when all appended bytes are on disk.
    func sync() throws(SystemError)
    /// Removes everything after the first `size` bytes.
    func truncate(to size: Int) throws(SystemError)
}

/// The log's file, locked by one simulator at a time.
package final class LogFile: LogStorage {
    /// The reason why a log cannot be used.
    package enum Failure: Error, Equatable, CustomStringConvertible {
        case system(path: String, SystemError)
        case notRegular(path: String)
        /// Another simulator has locked the file.
        case inUse(path: String)
        /// No simulator can have written the line with this number: it is malformed or contradicts earlier lines.
        case damaged(path: String, line: Int)

        package var description: String {
            switch self {
            case .system(let path, let error): "\(path): \(error)"
            case .notRegular(let path): "\(path) is not a regular file; name another file with --log"
            case .inUse(let path):
                "\(path) is written by another simulator; stop it first, or name another file with --log"
            case .damaged(let path, let line):
                "\(path), line \(line), is not what a simulator writes there; move the file away, or name another with --log"
            }
        }
    }

    private let path: String
    private let descriptor: CInt

    /// Opens the file of a log.
    ///
    /// - Parameter writable: true to create a missing file with mode 0600 and lock the file until this value is
    ///   released; false to read an existing file.
    package init(path: String, writable: Bool) throws(Failure) {
        self.path = path
        let flags = writable ? O_RDWR | O_APPEND | O_CREAT : O_RDONLY
        descriptor = unsafe open(path, flags | O_CLOEXEC | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else { throw .system(path: path, SystemError(call: "open", errno: errno)) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else {
            throw .system(path: path, SystemError(call: "fstat", errno: errno))
        }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notRegular(path: path) }
        guard writable else { return }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { throw .inUse(path: path) }
        try syncDirectory()
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Syncs the directory, which contains the file's name, so that a new file survives a crash.
    private func syncDirectory() throws(Failure) {
        let parent = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let directory = unsafe open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { throw .system(path: parent, SystemError(call: "open", errno: errno)) }
        defer { close(directory) }
        guard fsync(directory) == 0 else { throw .system(path: parent, SystemError(call: "fsync", errno: errno)) }
    }

    /// Reads all complete lines.
    ///
    /// - Returns: the payments that these lines describe, the lines' size in bytes, and the number of bytes after them.
    ///   The bytes after them belong to a line that was being written when the simulator or the machine stopped.
    package func read() throws(Failure) -> (records: PaymentRecords, size: Int, tornBytes: Int) {
        var records = PaymentRecords()
        var (size, count) = (0, 0)
        var line: [UInt8] = []
        while let chunk = try nextChunk(from: size + line.count), !chunk.isEmpty {
            for byte in chunk {
                guard byte == UInt8(ascii: "\n") else {
                    line.append(byte)
                    guard line.count <= LogLine.maximumBytes else { throw .damaged(path: path, line: count + 1) }
                    continue
                }
                count += 1
                guard let read = LogLine(line), records.apply(read) else { throw .damaged(path: path, line: count) }
                size += line.count + 1
                line.removeAll(keepingCapacity: true)
            }
        }
        return (records, size, line.count)
    }

    private func nextChunk(from offset: Int) throws(Failure) -> [UInt8]? {
        var chunk = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let count = unsafe pread(descriptor, &chunk, chunk.count, off_t(offset))
            if count >= 0 { return Array(chunk[..<count]) }
            guard errno == EINTR else { throw .system(path: path, SystemError(call: "pread", errno: errno)) }
        }
    }

    package func append(_ bytes: [UInt8]) throws(SystemError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else if errno != EINTR {
                throw SystemError(call: "write", errno: errno)
            }
        }
    }

    package func sync() throws(SystemError) {
        guard fdatasync(descriptor) == 0 else { throw SystemError(call: "fdatasync", errno: errno) }
    }

    package func truncate(to size: Int) throws(SystemError) {
        guard ftruncate(descriptor, off_t(size)) == 0 else { throw SystemError(call: "ftruncate", errno: errno) }
    }
}
