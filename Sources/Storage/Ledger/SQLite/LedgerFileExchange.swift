import Foundation
import Glibc

/// Puts a restored ledger in the place of the former one, so that at no moment a program can start on neither, or on a mixture.
///
/// Either would release again what was released: a start without a file makes an empty ledger, and SQLite plays a log that it finds
/// beside a file into it, whosever log it is. So the former file keeps its log until a link without a target has taken its place,
/// which no version opens; and what a loss of power leaves is the former ledger, that link, or the restored one.
struct LedgerFileExchange {
    /// The ledger's place, absolute; its lock is held.
    let path: String
    /// The restored ledger, in one file, synced, in the same directory.
    let restored: String
    /// Where the former ledger goes.
    let aside: String
    let found: Place

    /// What stands in the ledger's place.
    enum Place: Equatable {
        case nothing
        case file
        /// What a restore left that broke off: the former ledger, or most of it, is at `aside`.
        case brokenOff(aside: String)
    }

    /// What can be beside a database: its log, that log's index, and a rollback journal.
    static let sideFiles = ["-wal", "-shm", "-journal"]
    private static let linkEnding = ".restoring"
    /// Behind the ledger's name, before the time of the restore: the former ledger's name.
    static let asideMark = ".before-restore-"
    private var link: String { path + ".restoring-link" }

    /// - Throws: `brokenOff` when what is there is neither a file nor a broken-off restore, or the name of the former ledger is taken.
    init(path: String, restored: String, aside: String) throws(LedgerFileRestoreError) {
        self.path = path
        self.restored = restored
        guard let found = Self.place(path) else {
            throw .file(.notPrivate(path: path, why: "is not a regular file"))
        }
        self.found = found
        if case .brokenOff(let former) = found {
            self.aside = former
        } else {
            self.aside = aside
            if found == .file { Self.removeSecondNames(of: path) }
            guard ([""] + Self.sideFiles).allSatisfy({ !Self.exists(aside + $0) }) else {
                throw .brokenOff(reason: "\(aside) is there already, and is not overwritten.")
            }
        }
    }

    /// Nil for what is neither a file nor made by this type.
    static func place(_ path: String) -> Place? {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { return errno == ENOENT ? .nothing : nil }
        switch status.st_mode & S_IFMT {
        case S_IFREG: return .file
        case S_IFLNK:
            guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: path),
                target.hasSuffix(linkEnding), !target.contains("/")
            else { return nil }
            return .brokenOff(aside: directory(of: path) + "/" + target.dropLast(linkEnding.count))
        default: return nil
        }
    }

    /// In this order, each only after the one before. After each of them a power cut or a kill may come.
    var steps: [() throws(LedgerFileRestoreError) -> Void] {
        let begin: [() throws(LedgerFileRestoreError) -> Void] =
            found == .file ? [nameFormer, syncDirectory, putLink, syncDirectory] : []
        return begin + [moveSideFiles, syncDirectory, putRestored, syncDirectory]
    }

    /// Durable when it returns.
    ///
    /// - Returns: where the former ledger is; nil where there was none.
    func carryOut() throws(LedgerFileRestoreError) -> String? {
        for step in steps { try step() }
        return Self.exists(aside) ? aside : nil
    }

    /// Names that a restore gave the ledger and then broke off before it changed anything else: what is written to the ledger
    /// would be written to what looks like a copy of an earlier day.
    private static func removeSecondNames(of path: String) {
        let place = URL(filePath: path)
        let beginning = place.lastPathComponent + asideMark
        for name in (try? FileManager.default.contentsOfDirectory(atPath: directory(of: path))) ?? []
        where name.hasPrefix(beginning) {
            let other = directory(of: path) + "/" + name
            if isSameFile(other, path) { _ = unsafe unlink(other) }
        }
    }

    private static func isSameFile(_ one: String, _ other: String) -> Bool {
        var (first, second) = (stat(), stat())
        guard unsafe lstat(one, &first) == 0, unsafe lstat(other, &second) == 0 else { return false }
        return first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }

    /// A second name, so that the file has one at every moment.
    private func nameFormer() throws(LedgerFileRestoreError) {
        guard unsafe Glibc.link(path, aside) == 0 else { throw .failed("\(path) cannot get the second name \(aside)") }
    }

    private func putLink() throws(LedgerFileRestoreError) {
        do throws(LedgerFileRestoreError) {
            let target = URL(filePath: aside).lastPathComponent + Self.linkEnding
            _ = unsafe unlink(link)
            guard unsafe symlink(target, link) == 0 else { throw .failed("\(link) cannot be made") }
            guard unsafe rename(link, path) == 0 else { throw .failed("\(path) cannot be replaced") }
        } catch {
            // Nothing has changed but for the second name, which a failing disk may have made the only one.
            _ = unsafe unlink(link)
            if Self.isSameFile(aside, path) { _ = unsafe unlink(aside) }
            throw error
        }
    }

    private func moveSideFiles() throws(LedgerFileRestoreError) {
        for suffix in Self.sideFiles where Self.exists(path + suffix) {
            guard unsafe rename(path + suffix, aside + suffix) == 0 else {
                throw .failed("\(path + suffix) cannot be moved aside")
            }
        }
    }

    private func putRestored() throws(LedgerFileRestoreError) {
        // Where nothing was, nothing that has come meanwhile is replaced.
        let status = unsafe found == .nothing ? Glibc.link(restored, path) : rename(restored, path)
        guard status == 0 else { throw .failed("\(path) cannot be made") }
    }

    private func syncDirectory() throws(LedgerFileRestoreError) {
        let directory = Self.directory(of: path)
        let descriptor = unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .failed("\(directory) cannot be opened") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .failed("\(directory) cannot be synced") }
    }

    private static func directory(of path: String) -> String {
        let directory = URL(filePath: path).deletingLastPathComponent().path(percentEncoded: false)
        return directory.count > 1 && directory.hasSuffix("/") ? String(directory.dropLast()) : directory
    }

    static func exists(_ path: String) -> Bool {
        var status = stat()
        return unsafe lstat(path, &status) == 0
    }
}

extension LedgerFileRestoreError {
    /// Of a call that has just failed and set `errno`.
    static func failed(_ what: String) -> LedgerFileRestoreError {
        .brokenOff(reason: "\(what): \(unsafe String(cString: strerror(errno))).")
    }
}
