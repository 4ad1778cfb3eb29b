import Foundation
import Glibc

// Unsafe: lstat(2) writes only the structure that it receives.

/// The file or link that exists at a ledger's path, if any.
package enum LedgerPlace: Equatable {
    case nothing
    case file
    /// A symbolic link that an interrupted restore left. `aside` is the path to which the restore moved the previous
    /// ledger; some of that ledger's files may not have been moved.
    case interruptedRestore(aside: String)

    /// The suffix by which the symbolic link of an interrupted restore is recognised. The link's target is the previous
    /// ledger's file name, followed by this suffix.
    package static let linkEnding = ".restoring"

    /// Determines what exists at a path. Returns nil for anything that no case describes, such as a directory or another
    /// symbolic link.
    package init?(of path: String) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else {
            guard errno == ENOENT else { return nil }
            self = .nothing
            return
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG: self = .file
        case S_IFLNK:
            guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: path),
                target.hasSuffix(Self.linkEnding), !target.contains("/")
            else { return nil }
            self = .interruptedRestore(aside: Self.directory(of: path) + "/" + target.dropLast(Self.linkEnding.count))
        default: return nil
        }
    }

    package static func directory(of path: String) -> String {
        let directory = URL(filePath: path).deletingLastPathComponent().path(percentEncoded: false)
        return directory.count > 1 && directory.hasSuffix("/") ? String(directory.dropLast()) : directory
    }

    /// Returns true if the path exists. A symbolic link exists even if its target does not.
    package static func exists(_ path: String) -> Bool {
        var status = stat()
        return unsafe lstat(path, &status) == 0
    }
}
