package import AuditChain
import Crypto
import Foundation
import Glibc
import Ledger
import NIOPosix

// Unsafe: Each system call uses its path and its structure only until it returns. Results are checked, and
// strerror(3) is copied at once.

/// The reason why an archive file was not written or is not accepted. The daemon then removes no records from the ledger.
enum ArchiveFailure: Error, Sendable, Equatable, CustomStringConvertible {
    case directory(path: String, reason: String)
    /// With the archive, the file system would have less free space than ``ArchiveFile/reserve``.
    case noRoom(path: String)
    case cannotWrite(path: String, reason: String)
    /// A file with the archive's name exists, but its content is not that of the archive.
    case differs(path: String)
    case missing(path: String)
    /// The file that was written does not verify when it is read back.
    case notIntact(path: String, finding: String)
    /// The ledger has no claim of Apple Pay, so nothing confirms that the clock is right.
    case clockUnconfirmed(now: AuditTime)

    var description: String {
        switch self {
        case .directory(let path, let reason): "the directory \(path) \(reason)"
        case .noRoom(let path):
            "the file system of \(path) would have less than \(ArchiveFile.reserve >> 20) MiB left; free some space"
        case .cannotWrite(let path, let reason): "\(path) cannot be written: \(reason)"
        case .differs(let path): "\(path) is not the archive that the record names; restore that file"
        case .missing(let path): "\(path) is missing or cannot be read; restore it"
        case .notIntact(let path, let finding): "what was written to \(path) does not verify: \(finding)"
        case .clockUnconfirmed(let now):
            "by the clock, \(now.text), records are old enough to archive, but only a release of Apple Pay confirms the "
                + "clock, and the ledger has none. They are archived after the next one; with Google Pay only, remove "
                + "ledger.retain_records. If the clock is wrong, set it"
        }
    }
}

/// A file of archived records. It has the form of an export, and only the daemon's account can read it.
///
/// The daemon writes it under a temporary name, synchronizes it to disk, reads it back and verifies it. Only then does the
/// file get its final name.
struct ArchiveFile: Sendable {
    let directory: String
    let name: String

    var path: String { "\(directory)/\(name)" }
    private var partial: String { "\(directory)/.\(name).partial" }

    /// The number of bytes that an archive leaves free in its file system. The ledger may be in the same file system,
    /// and its commits fail when that is full.
    static let reserve: UInt64 = 256 << 20

    /// Creates the directory if it does not exist, and checks that no other account can write to it.
    static func prepare(_ directory: String) async throws(ArchiveFailure) {
        try await onAnotherThread { () throws(ArchiveFailure) in
            if unsafe mkdir(directory, 0o700) != 0, errno != EEXIST {
                throw .directory(path: directory, reason: "cannot be created: \(text(of: errno)).")
            }
            var status = stat()
            guard unsafe stat(directory, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
                throw .directory(path: directory, reason: "is not a directory")
            }
            guard status.st_mode & 0o022 == 0, status.st_uid == geteuid() || status.st_uid == 0 else {
                throw .directory(
                    path: directory,
                    reason: "can be written by others; it must be the daemon's account's or root's, mode 0700")
            }
        }
    }

    /// Writes the records that are old enough. The file ends with the last audit checkpoint before the first record that is
    /// too new.
    ///
    /// - Parameters:
    ///   - pages: the pages of the record, starting after the previous archive.
    ///   - cutOff: the time from which records are too new for the archive.
    /// - Returns: the end of the file; nil if no audit checkpoint seals a record that is old enough.
    func write(
        _ pages: AuditLinePages, first: Int, olderThan cutOff: AuditTime
    ) async throws -> End? {
        let file = try await create()
        var draft = Draft()
        for try await page in pages {
            var bytes: [UInt8] = []
            var isOver = false
            for line in page.lines {
                if case .record(_, let record) = line {
                    // A damaged line without a time ends the archive too. It stays in the ledger, where `audit verify`
                    // reports it.
                    isOver = RecordStart(record).map { $0.time >= cutOff } ?? true
                    if isOver { break }
                }
                bytes += line.bytes + [UInt8(ascii: "\n")]
                if case .checkpoint(_, let line) = line { draft.seal(with: line, at: draft.size + bytes.count) }
            }
            draft.size += bytes.count
            try await append(bytes, to: file)
            if isOver { break }
        }
        guard let end = draft.end, end.sequence >= first else {
            await discard()
            return nil
        }
        try await close(file, at: end.offset)
        return end
    }

    /// The last audit checkpoint in the archive file, and the offset of the byte after it.
    struct End: Sendable {
        let sequence: Int
        let hash: AuditDigest
        let offset: Int
    }

    /// The state of an archive file that is being written: its size in bytes, and the last audit checkpoint in it.
    private struct Draft {
        var size = 0
        var end: End?

        mutating func seal(with line: [UInt8], at offset: Int) {
            guard let checkpoint = SignedCheckpoint(line: line)?.checkpoint else { return }
            end = End(sequence: checkpoint.sequence, hash: checkpoint.hash, offset: offset)
        }
    }

    private func create() async throws(ArchiveFailure) -> FileHandle {
        try await Self.onAnotherThread { () throws(ArchiveFailure) in
            // A file with the temporary name is left from an interrupted run, since no other process writes to this
            // directory.
            _ = unsafe unlink(partial)
            let descriptor = unsafe open(partial, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { throw .cannotWrite(path: partial, reason: Self.text(of: errno)) }
            return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        }
    }

    private func append(_ bytes: [UInt8], to file: FileHandle) async throws(ArchiveFailure) {
        try await Self.onAnotherThread { () throws(ArchiveFailure) in
            var room = statvfs()
            guard unsafe statvfs(directory, &room) == 0,
                UInt64(room.f_bavail) * UInt64(room.f_frsize) > Self.reserve + UInt64(bytes.count)
            else { throw .noRoom(path: directory) }
            do {
                try file.write(contentsOf: bytes)
            } catch {
                throw .cannotWrite(path: partial, reason: Self.text(of: errno))
            }
        }
    }

    /// Truncates the archive file after its last audit checkpoint, and synchronizes it to disk.
    private func close(_ file: FileHandle, at size: Int) async throws(ArchiveFailure) {
        try await Self.onAnotherThread { () throws(ArchiveFailure) in
            do {
                try file.truncate(atOffset: UInt64(size))
                try file.synchronize()
            } catch {
                throw .cannotWrite(path: partial, reason: Self.text(of: errno))
            }
        }
    }

    /// Reads the written archive file back. Verifies every hash and signature in it, and that it contains exactly the
    /// records from `first` to `end`.
    ///
    /// - Returns: the archive. Its file has the temporary name until ``publish(_:as:)``.
    func verify(
        from first: Int, to end: End, of node: AuditNode, keys: CheckpointKeys
    ) async throws(ArchiveFailure) -> RecordArchive {
        try await Self.onAnotherThread { () throws(ArchiveFailure) in
            var verifier = ChainVerifier(keys: keys, beginning: first == 1 ? .record1 : .anyRecord)
            guard let digest = AuditDigest.ofFile(partial, reading: { verifier.consume($0[...]) }) else {
                throw .missing(path: partial)
            }
            let verdict = verifier.verdict()
            guard case .intact(let ranges) = verdict, let range = ranges.first, ranges.count == 1, range.node == node,
                range.start == first - 1, range.last == end.sequence,
                let archive = RecordArchive(
                    first: first, last: end.sequence, hash: end.hash, digest: digest, size: end.offset)
            else { throw .notIntact(path: partial, finding: verdict.description) }
            return archive
        }
    }

    /// Gives the written archive file its final name. A file that already has this name must have the same content.
    func publish(_ archive: RecordArchive, as name: String) async throws(ArchiveFailure) {
        let path = "\(directory)/\(name)"
        try await Self.onAnotherThread { () throws(ArchiveFailure) in
            if unsafe link(partial, path) != 0 {
                guard errno == EEXIST else { throw .cannotWrite(path: path, reason: Self.text(of: errno)) }
                guard AuditDigest.ofFile(path) == archive.digest else { throw .differs(path: path) }
            }
            _ = unsafe unlink(partial)
            let descriptor = unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            defer { if descriptor >= 0 { _ = Glibc.close(descriptor) } }
            guard descriptor >= 0, fsync(descriptor) == 0 else {
                throw .cannotWrite(path: directory, reason: Self.text(of: errno))
            }
        }
    }

    /// Throws unless the archive file exists and has the recorded digest.
    func require(_ archive: RecordArchive) async throws(ArchiveFailure) {
        try await Self.onAnotherThread { () throws(ArchiveFailure) in
            guard let digest = AuditDigest.ofFile(path) else { throw .missing(path: path) }
            guard digest == archive.digest else { throw .differs(path: path) }
        }
    }

    /// Removes the unfinished archive file, which has a temporary name.
    func discard() async {
        try? await Self.onAnotherThread { () throws(ArchiveFailure) in _ = unsafe unlink(partial) }
    }

    private static func text(of error: Int32) -> String {
        unsafe String(cString: strerror(error)).lowercased()
    }

    /// Runs blocking file operations in NIO's thread pool, outside the pool on which tasks run.
    private static func onAnotherThread<Value: Sendable>(
        _ work: @escaping @Sendable () throws(ArchiveFailure) -> Value
    ) async throws(ArchiveFailure) -> Value {
        do {
            return try await NIOThreadPool.singleton.runIfActive { Result { () throws(ArchiveFailure) in try work() } }
                .get()
        } catch let error as ArchiveFailure {
            throw error
        } catch {
            throw .cannotWrite(path: "the archive", reason: "the daemon is stopping")
        }
    }
}

extension AuditDigest {
    /// Returns the SHA-256 of a file; nil if the file cannot be read.
    ///
    /// - Parameter reading: a function that receives each block of the file, in order.
    package static func ofFile(_ path: String, reading: (([UInt8]) -> Void)? = nil) -> AuditDigest? {
        guard let file = FileHandle(forReadingAtPath: path) else { return nil }
        defer { try? file.close() }
        var hash = SHA256()
        do {
            while let block = try file.read(upToCount: 1 << 18), !block.isEmpty {
                hash.update(data: block)
                reading?([UInt8](block))
            }
        } catch {
            return nil
        }
        return AuditDigest(bytes: Array(hash.finalize()))
    }
}
