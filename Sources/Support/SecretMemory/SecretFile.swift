import Glibc

// Unsafe: read(2) receives the rest of the secret's memory, and fstat(2) writes only its structure.

/// The reason why a file with a secret was refused, and the remedy. It never contains the content.
public struct SecretFileError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Reason: Sendable, Equatable {
        /// The file cannot be opened or read; the value is the system's `errno`.
        case unreadable(Int32)
        /// A directory, a pipe or a device.
        case notARegularFile
        /// The permission bits give others access, or let the group write.
        case accessibleToOthers(mode: UInt32)
        /// The file is empty, or contains only a newline.
        case empty
        /// The file is larger than the limit.
        case tooLong(limit: Int)
        /// The file has a line break other than one at the end, or a NUL.
        case moreThanOneLine
    }

    /// The file's path as given by the caller.
    public let path: String
    public let reason: Reason

    public var description: String {
        switch reason {
        case .unreadable(let code):
            "cannot read the secret's file \(path): \(unsafe String(cString: strerror(code)))"
        case .notARegularFile:
            "the secret's file \(path) is not a regular file"
        case .accessibleToOthers(let mode):
            "the secret's file \(path) has mode 0\(String(mode, radix: 8)), so others can access it: "
                + "remove their permissions with chmod o=,g-w"
        case .empty:
            "the secret's file \(path) is empty"
        case .tooLong(let limit):
            "the secret's file \(path) is longer than \(limit) bytes: it must hold the secret and nothing else"
        case .moreThanOneLine:
            "the secret's file \(path) must hold the secret on one line, ended by one newline or none"
        }
    }
}

extension SecretBytes {
    /// Reads a PIN or another one-line secret from a file. One newline (LF) at the end is removed.
    ///
    /// The permissions of the opened file are checked: no access for others, no write access for the group. The group
    /// may read. To prevent the daemon from changing its own PIN, the usual file has owner root, the daemon's group and
    /// mode 0640. Symbolic links are followed; the permissions of their targets are checked.
    ///
    /// - Parameters:
    ///   - path: a regular file.
    ///   - maximumCount: the longest secret accepted, in bytes.
    ///   - hasLines: true if the secret may have more than one line, such as a key in PEM.
    public init(
        contentsOfFile path: String, maximumCount: Int = 256, hasLines: Bool = false
    ) throws(SecretFileError) {
        // O_NONBLOCK, so that a pipe without a writer is refused instead of blocking.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw SecretFileError(path: path, reason: .unreadable(errno)) }
        defer { close(descriptor) }
        try Self.checkPermissions(descriptor, path)
        // Space for the newline, and for one more byte to detect a secret that is too long.
        var secret = SecretBytes(count: maximumCount + 2)
        secret.shrink(to: try Self.fill(&secret, from: descriptor, path))
        secret.dropLastNewline()
        guard secret.count > 0 else { throw SecretFileError(path: path, reason: .empty) }
        guard secret.count <= maximumCount else {
            throw SecretFileError(path: path, reason: .tooLong(limit: maximumCount))
        }
        guard hasLines || secret.isOneLine else { throw SecretFileError(path: path, reason: .moreThanOneLine) }
        self = secret
    }

    private static func checkPermissions(_ descriptor: Int32, _ path: String) throws(SecretFileError) {
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else {
            throw SecretFileError(path: path, reason: .unreadable(errno))
        }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw SecretFileError(path: path, reason: .notARegularFile)
        }
        guard status.st_mode & (S_IRWXO | S_IWGRP) == 0 else {
            throw SecretFileError(path: path, reason: .accessibleToOthers(mode: status.st_mode & 0o7777))
        }
    }

    private static func fill(
        _ secret: inout SecretBytes, from descriptor: Int32, _ path: String
    ) throws(SecretFileError) -> Int {
        var filled = 0
        while filled < secret.count {
            let got = unsafe secret.withUnsafeMutableBytes { buffer in
                unsafe read(descriptor, buffer.baseAddress.unsafelyUnwrapped + filled, buffer.count - filled)
            }
            if got == 0 { break }
            if got < 0 {
                if errno == EINTR { continue }
                throw SecretFileError(path: path, reason: .unreadable(errno))
            }
            filled += got
        }
        return filled
    }

    private mutating func dropLastNewline() {
        let endsInNewline = unsafe withUnsafeBytes { unsafe $0.last == UInt8(ascii: "\n") }
        if endsInNewline { shrink(to: count - 1) }
    }

    private var isOneLine: Bool {
        unsafe withUnsafeBytes { bytes in
            unsafe !bytes.contains { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") || $0 == 0 }
        }
    }
}
