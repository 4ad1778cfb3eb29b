package import DaemonAPI
import Glibc

// Unsafe: The system calls use the buffer and the structure only until they return, within their lengths.

/// Standard output, for results only, and standard error, for everything else. There are no colours: a terminal
/// receives the same text as a file.
package enum Console {
    /// Writes a result. Does not throw if the reader has closed the pipe (`| head`).
    package static func output(_ text: String) throws(CommandFailure) { _ = try write(Array(text.utf8)) }

    /// Writes a list. It is fitted to the width of a terminal, unless `--wide` was given. A file or pipe gets the list
    /// in full.
    package static func output(_ table: Table, _ width: WideOption) throws(CommandFailure) {
        let (text, note) = table.shown(isWide: width.isWide)
        try output(text)
        if let note { error(note) }
    }

    /// Writes a document for another program, with a newline at its end.
    package static func output(json bytes: [UInt8]) throws(CommandFailure) {
        _ = try write(bytes.last == UInt8(ascii: "\n") ? bytes : bytes + [UInt8(ascii: "\n")])
    }

    /// Writes a part of a long result. If the reader has closed the pipe, throws a ``CommandFailure`` that ends the
    /// program with exit status 0.
    package static func output(part bytes: [UInt8]) throws(CommandFailure) {
        guard try write(bytes) else { throw CommandFailure(.done, nil) }
    }

    /// Writes a line to standard error, with characters that are unsafe for a terminal shown as code points
    /// (``Printable``).
    package static func error(_ line: String) {
        try? Descriptor.write(Array((Printable.text(line) + "\n").utf8), to: STDERR_FILENO)
    }

    /// - Returns: false if the reader closed the pipe.
    private static func write(_ bytes: [UInt8]) throws(CommandFailure) -> Bool {
        do {
            try Descriptor.write(bytes, to: STDOUT_FILENO)
            return true
        } catch {
            guard !error.isReaderGone else { return false }
            throw CommandFailure(
                error.exitStatus,
                "Standard output cannot be written: \(error.reason). The result is lost or incomplete; the operation "
                    + "may have been carried out: check before you repeat it.")
        }
    }
}

/// write(2) on an open descriptor.
package enum Descriptor {
    /// Writes all bytes, in as many calls as the kernel needs. Blocks.
    package static func write(_ bytes: [UInt8], to descriptor: Int32) throws(DescriptorFailure) {
        var written = 0
        while written < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { buffer in
                let rest = unsafe UnsafeRawBufferPointer(rebasing: buffer[written...])
                return unsafe Glibc.write(descriptor, rest.baseAddress, rest.count)
            }
            if count >= 0 {
                written += count
                continue
            }
            switch errno {
            case EINTR: continue
            // Another process that shares the terminal or pipe has made the descriptor non-blocking.
            case EAGAIN: waitUntilWritable(descriptor)
            default: throw DescriptorFailure(number: errno)
            }
        }
    }

    private static func waitUntilWritable(_ descriptor: Int32) {
        var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        _ = unsafe poll(&request, 1, -1)
    }
}

/// The reason why a file could not be written or created.
package struct DescriptorFailure: Error, Equatable {
    /// The errno of the failed system call.
    package let number: Int32

    package init(number: Int32) {
        self.number = number
    }

    /// True if the other end of a pipe is closed (EPIPE).
    package var isReaderGone: Bool { number == EPIPE }

    /// The exit status of the command. A full disk is temporary: the user can repeat the command later, a decryption
    /// with the same reference. Any other reason means that the file cannot be used, for which `unreadable` is the
    /// nearest status. The programs do not use EX_IOERR of sysexits.h.
    package var exitStatus: ExitStatus { [ENOSPC, EDQUOT].contains(number) ? .tryAgainLater : .unreadable }

    /// The text of strerror(3).
    package var reason: String { unsafe String(cString: strerror(number)) }
}
