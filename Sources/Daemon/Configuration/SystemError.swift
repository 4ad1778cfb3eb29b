import Glibc

/// A system call that failed, by its name and errno.
struct SystemError: Error, Equatable, CustomStringConvertible {
    let call: String
    let errno: CInt

    /// "open: Permission denied"
    var description: String { "\(call): \(Self.message(for: errno))" }

    /// The C library's words for an errno.
    static func message(for errno: CInt) -> String {
        // strerror_r(3): strerror's buffer is shared between threads.
        var buffer = [CChar](repeating: 0, count: 256)
        guard unsafe strerror_r(errno, &buffer, buffer.count) == 0 else { return "error \(errno)" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
