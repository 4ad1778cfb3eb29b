import CLinux
import Glibc

// Unsafe: The system calls use paths and structures only until they return. readlinkat(2) receives the buffer's own
// length.

/// A program that only root and the daemon's account can change. It is opened once, so that the file that was checked is
/// the file that runs.
///
/// The path is opened component by component without following links. The owner and mode of each component are checked on
/// its descriptor: every directory, every link, and the file. A link's target is checked in the same way.
package final class TrustedExecutable: Sendable {
    /// The reason why a program must not run. The description continues a sentence that begins with the program's path.
    package struct Objection: Error, Equatable, CustomStringConvertible {
        package let description: String

        static let noFile = Objection(description: "is not a regular file")
        static let noProgram = Objection(description: "is not an executable program")
        static let unreadable = Objection(description: "or a directory above it cannot be read")
        static let foreign = Objection(
            description: "or a directory above it belongs to neither root nor the daemon's account")
        static let writable = Objection(
            description: "or a directory above it can be written by others; use chmod go-w")
    }

    private static let maximumLinks = 40

    private let file: OwnedDescriptor
    /// The program's descriptor. It is executed as `/proc/self/fd/N`.
    var descriptor: CInt { file.number }

    /// Opens and checks the program.
    /// - Parameter path: an absolute path.
    package init(path: String) throws(Objection) {
        file = try Self.file(at: path) { unsafe access("/proc/self/fd/\($0.number)", X_OK) == 0 ? nil : .noProgram }
    }

    /// Checks in the same way a file that is no program.
    /// - Parameter path: an absolute path.
    package static func check(fileAt path: String) throws(Objection) {
        _ = try file(at: path, missing: .noFile) { _ in nil }
    }

    private static func file(
        at path: String, missing: Objection = .noProgram, _ objection: (OwnedDescriptor) -> Objection?
    ) throws(Objection) -> OwnedDescriptor {
        var place = try Self.root()
        // The names of the components that remain to be opened, in reverse order.
        var rest = Self.components(path)
        var links = 0
        while let name = rest.popLast() {
            let next = OwnedDescriptor(unsafe paytokend_open_place(place.number, name))
            guard next.isOpen else { throw next.number == -EACCES ? .unreadable : missing }
            let status = try Self.status(next)
            switch status.st_mode & S_IFMT {
            case S_IFLNK:
                links += 1
                guard links <= Self.maximumLinks, let target = Self.target(of: next) else { throw missing }
                if target.hasPrefix("/") { place = try Self.root() }
                rest += Self.components(target)
            case S_IFDIR:
                try Self.check(status)
                place = next
            case S_IFREG:
                guard rest.isEmpty else { throw missing }
                if let objection = objection(next) { throw objection }
                try Self.check(status)
                return next
            default: throw missing
            }
        }
        throw missing
    }

    private static func components(_ path: String) -> [String] {
        path.split(separator: "/").map(String.init).reversed()
    }

    private static func root() throws(Objection) -> OwnedDescriptor {
        let root = OwnedDescriptor(unsafe paytokend_open_place(AT_FDCWD, "/"))
        guard root.isOpen else { throw .unreadable }
        try check(status(root))
        return root
    }

    /// Returns the status of a file or directory; throws unless root or the daemon's account owns it.
    private static func status(_ place: OwnedDescriptor) throws(Objection) -> stat {
        var status = stat()
        guard unsafe fstat(place.number, &status) == 0 else { throw .unreadable }
        guard status.st_uid == 0 || status.st_uid == geteuid() else { throw .foreign }
        return status
    }

    private static func check(_ status: stat) throws(Objection) {
        // In a sticky directory such as /tmp, only the owner of an entry or of the directory can replace the entry.
        let isSticky = status.st_mode & S_IFMT == S_IFDIR && status.st_mode & UInt32(S_ISVTX) != 0
        guard status.st_mode & 0o022 == 0 || isSticky else { throw .writable }
    }

    private static func target(of link: OwnedDescriptor) -> String? {
        var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = unsafe readlinkat(link.number, "", &bytes, bytes.count)
        guard count > 0, count < bytes.count else { return nil }
        return String(decoding: bytes.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// A file descriptor that is closed when the last reference to this object is released. A negative number means that there
/// is none.
final class OwnedDescriptor: Sendable {
    let number: CInt
    var isOpen: Bool { number >= 0 }

    init(_ number: CInt) { self.number = number }

    deinit { if isOpen { close(number) } }
}
