import Foundation
import Glibc
import Ledger
import SQLiteLedger

// Unsafe: The system calls use paths and structures only until they return.

/// Replaces a ledger with a restored one. At no time can a program start without a ledger or with a mixture of the two.
///
/// Either would repeat releases. A start without a file creates an empty ledger. SQLite applies any log that it finds
/// next to a file, even a log of a different file. The previous file therefore keeps its log until a dangling symbolic
/// link, which no version opens, has replaced it. After a power loss, the path contains the previous ledger, that link,
/// or the restored ledger.
struct LedgerFileExchange {
    /// The ledger's absolute path, which this process has locked.
    let path: String
    /// The restored ledger: one file, synced, in the same directory.
    let restored: String
    /// The path to which the previous ledger is moved.
    let aside: String
    let found: LedgerPlace

    /// The suffixes of files that can accompany a database: its log, the log's index, and a rollback journal.
    static let sideFiles = ["-wal", "-shm", "-journal"]
    /// The text that a restore appends to the previous ledger's file name, followed by the time of the restore.
    static let asideMark = ".before-restore-"
    private var link: String { path + ".restoring-link" }

    /// - Throws: `brokenOff` if the path contains neither a file nor an interrupted restore's link, or if the previous
    ///   ledger's new name is taken.
    init(path: String, restored: String, aside: String) throws(LedgerFileRestoreError) {
        self.path = path
        self.restored = restored
        guard let found = LedgerPlace(of: path) else {
            throw .file(.notPrivate(path: path, why: "is not a regular file"))
        }
        self.found = found
        if case .interruptedRestore(let former) = found {
            self.aside = former
        } else {
            self.aside = aside
            if found == .file { Self.removeSecondNames(of: path) }
            guard ([""] + Self.sideFiles).allSatisfy({ !LedgerPlace.exists(aside + $0) }) else {
                throw .brokenOff(reason: "\(aside) already exists and is not overwritten.")
            }
        }
    }

    /// The steps, each run only after the previous one succeeded. A power cut or a kill may come after any of them.
    var steps: [() throws(LedgerFileRestoreError) -> Void] {
        let begin: [() throws(LedgerFileRestoreError) -> Void] =
            found == .file ? [addNameAside, syncDirectory, putLink, syncDirectory] : []
        return begin + [moveSideFiles, syncDirectory, putRestored, syncDirectory]
    }

    /// Runs the steps; durable when it returns.
    ///
    /// - Returns: the previous ledger's path; nil if there was none.
    func carryOut() throws(LedgerFileRestoreError) -> String? {
        for step in steps { try step() }
        return LedgerPlace.exists(aside) ? aside : nil
    }

    /// Removes names that an interrupted restore gave the ledger before it changed anything else. Otherwise, writes to
    /// the ledger would also change the file that appears to be an earlier copy.
    private static func removeSecondNames(of path: String) {
        let place = URL(filePath: path)
        let beginning = place.lastPathComponent + asideMark
        for name in (try? FileManager.default.contentsOfDirectory(atPath: LedgerPlace.directory(of: path))) ?? []
        where name.hasPrefix(beginning) {
            let other = LedgerPlace.directory(of: path) + "/" + name
            if isSameFile(other, path) { _ = unsafe unlink(other) }
        }
    }

    private static func isSameFile(_ one: String, _ other: String) -> Bool {
        var (first, second) = (stat(), stat())
        guard unsafe lstat(one, &first) == 0, unsafe lstat(other, &second) == 0 else { return false }
        return first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }

    /// Gives the previous ledger its second name, at `aside`, before the first is replaced, so that the file always has
    /// a name.
    private func addNameAside() throws(LedgerFileRestoreError) {
        guard unsafe Glibc.link(path, aside) == 0 else { throw .failed("\(path) cannot get the second name \(aside)") }
    }

    private func putLink() throws(LedgerFileRestoreError) {
        do throws(LedgerFileRestoreError) {
            let target = URL(filePath: aside).lastPathComponent + LedgerPlace.linkEnding
            _ = unsafe unlink(link)
            guard unsafe symlink(target, link) == 0 else { throw .failed("\(link) cannot be created") }
            guard unsafe rename(link, path) == 0 else { throw .failed("\(path) cannot be replaced") }
        } catch {
            // Remove the second name only if the first still names the same file. After a disk failure, the second may
            // be the only one left.
            _ = unsafe unlink(link)
            if Self.isSameFile(aside, path) { _ = unsafe unlink(aside) }
            throw error
        }
    }

    private func moveSideFiles() throws(LedgerFileRestoreError) {
        for suffix in Self.sideFiles where LedgerPlace.exists(path + suffix) {
            guard unsafe rename(path + suffix, aside + suffix) == 0 else {
                throw .failed("\(path + suffix) cannot be moved aside")
            }
        }
    }

    private func putRestored() throws(LedgerFileRestoreError) {
        // If there was no ledger, do not replace one that has appeared since.
        let status = unsafe found == .nothing ? Glibc.link(restored, path) : rename(restored, path)
        guard status == 0 else { throw .failed("\(path) cannot be created") }
    }

    private func syncDirectory() throws(LedgerFileRestoreError) {
        let directory = LedgerPlace.directory(of: path)
        let descriptor = unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .failed("\(directory) cannot be opened") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .failed("\(directory) cannot be synced") }
    }
}

extension LedgerFileRestoreError {
    /// Returns the error for a system call that has just failed and set `errno`.
    static func failed(_ what: String) -> LedgerFileRestoreError {
        .brokenOff(reason: "\(what): \(unsafe String(cString: strerror(errno))).")
    }
}
