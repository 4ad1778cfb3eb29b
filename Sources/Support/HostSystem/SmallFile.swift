import Glibc

// Unsafe: read(2) receives the rest of the buffer. fstat(2) and strerror_r(3) write only what they receive.

/// Reads small files completely; a file larger than the limit is refused, not truncated.
package enum SmallFile {
    package enum Failure: Error, Equatable, CustomStringConvertible {
        case system(SystemError)
        case notRegular
        case tooLarge(maximumBytes: Int)
        case notUTF8
        /// The file begins with UTF-16's byte order mark.
        case isUTF16

        /// The reason, to follow "cannot be read: ".
        package var description: String {
            switch self {
            case .system(let error): SystemError.message(for: error.errno)
            case .notRegular: "it is not a regular file"
            case .tooLarge(let maximumBytes): "it has more than \(maximumBytes) bytes"
            case .notUTF8: "it is not UTF-8"
            case .isUTF16: "it is UTF-16; save it as UTF-8 without a byte order mark (BOM)"
            }
        }
    }

    /// The file's bytes. Symbolic links are followed; a FIFO or a device is refused, since reading it could block.
    package static func bytes(at path: String, maximumBytes: Int) throws(Failure) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .system(SystemError(call: "open", errno: errno)) }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else {
            throw .system(SystemError(call: "fstat", errno: errno))
        }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
        // One byte more than allowed distinguishes a file of exactly that size from a larger one; files in /proc report
        // no size.
        var buffer = [UInt8](repeating: 0, count: maximumBytes + 1)
        var filled = 0
        while filled < buffer.count {
            let count = unsafe buffer.withUnsafeMutableBytes { bytes in
                unsafe read(descriptor, bytes.baseAddress?.advanced(by: filled), bytes.count - filled)
            }
            if count == 0 { break }
            if count < 0 {
                if errno == EINTR { continue }
                throw .system(SystemError(call: "read", errno: errno))
            }
            filled += count
        }
        guard filled <= maximumBytes else { throw .tooLarge(maximumBytes: maximumBytes) }
        buffer.removeLast(buffer.count - filled)
        return buffer
    }

    /// The file as UTF-8 text.
    package static func text(at path: String, maximumBytes: Int) throws(Failure) -> String {
        let bytes = try bytes(at: path, maximumBytes: maximumBytes)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF]) ? .isUTF16 : .notUTF8
        }
        return text
    }
}

/// A failed system call, with its name and errno.
package struct SystemError: Error, Equatable, CustomStringConvertible {
    package let call: String
    package let errno: CInt

    package init(call: String, errno: CInt) {
        self.call = call
        self.errno = errno
    }

    /// The call and the reason of its failure, such as "open: Permission denied".
    package var description: String { "\(call): \(Self.message(for: errno))" }

    /// The C library's text for an errno.
    package static func message(for errno: CInt) -> String {
        // strerror_r(3), because threads share strerror's buffer.
        var buffer = [CChar](repeating: 0, count: 256)
        guard unsafe strerror_r(errno, &buffer, buffer.count) == 0 else { return "error \(errno)" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
