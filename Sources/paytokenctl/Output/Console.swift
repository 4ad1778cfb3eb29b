import CommandOutput
import DaemonAPI
import Glibc

/// Standard output for results, standard error for all else. No colours: what is shown in a terminal is what a file
/// gets.
enum Console {
    static func output(_ text: String) throws(CommandFailure) {
        try output(bytes: Array(text.utf8))
    }

    /// A list: in a terminal as wide as that is, else, or when all is wanted, in full.
    static func output(_ table: Table, _ width: WideOption) throws(CommandFailure) {
        let (text, remark) = table.shown(isWide: width.isWide)
        try output(text)
        if let remark { error(remark) }
    }

    /// A document that another program reads, with a newline at its end.
    static func output(json bytes: [UInt8]) throws(CommandFailure) {
        try output(bytes: bytes.last == UInt8(ascii: "\n") ? bytes : bytes + [UInt8(ascii: "\n")])
    }

    private static func output(bytes: [UInt8]) throws(CommandFailure) {
        do {
            try Descriptor.write(bytes, to: STDOUT_FILENO)
        } catch  where error.isReaderGone {
            // `| head`: there is nothing to tell and nobody to tell it to.
        } catch {
            throw lost(error)
        }
    }

    /// A part of what comes bit by bit. When nobody reads any more, the command ends here, and well.
    static func output(part bytes: [UInt8]) throws(CommandFailure) {
        do {
            try Descriptor.write(bytes, to: STDOUT_FILENO)
        } catch {
            throw error.isReaderGone ? CommandFailure(.done, nil) : lost(error)
        }
    }

    static func error(_ text: String) {
        try? Descriptor.write(Array((Printable.text(text) + "\n").utf8), to: STDERR_FILENO)
    }

    private static func lost(_ failure: DescriptorFailure) -> CommandFailure {
        CommandFailure(
            failure.exitStatus,
            "Standard output cannot be written: \(failure.reason). The result is lost or incomplete; what was asked of "
                + "the daemon may have happened: look before repeating it.")
    }
}

/// write(2) on an open descriptor.
enum Descriptor {
    /// Writes all of it, however often the kernel takes only a part. Blocks.
    static func write(_ bytes: [UInt8], to descriptor: Int32) throws(DescriptorFailure) {
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
            // Somebody who has the same terminal or pipe has made it non-blocking.
            case EAGAIN: awaitRoom(descriptor)
            default: throw DescriptorFailure(number: errno)
            }
        }
    }

    private static func awaitRoom(_ descriptor: Int32) {
        var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        _ = unsafe poll(&request, 1, -1)
    }
}

/// Why something could not be written or made.
struct DescriptorFailure: Error, Equatable {
    /// errno.
    let number: Int32

    /// EPIPE: the other end of a pipe is closed.
    var isReaderGone: Bool { number == EPIPE }

    /// A full disk passes, and what did not fit can be asked for again, a decryption with the same reference: so "try
    /// again later". Anything else is a file that cannot be used. sysexits.h's EX_IOERR is not among our statuses.
    var exitStatus: ExitStatus { [ENOSPC, EDQUOT].contains(number) ? .tryAgainLater : .unreadable }

    /// As strerror(3) says it.
    var reason: String { unsafe String(cString: strerror(number)) }
}
