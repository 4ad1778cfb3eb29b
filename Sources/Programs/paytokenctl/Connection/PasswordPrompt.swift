import CommandOutput
import DaemonAPI
import Glibc
import SecretMemory

// Unsafe: The system calls use the structure and the secret only until they return. The loop ends at the secret's
// end.

/// A typed password, stored in an unnamed file in this process's memory. Code that reads secrets from files can read
/// it, and it is gone when the process ends, at the latest.
final class TypedPassword: Sendable {
    /// A path that is valid only in this process.
    let path: String
    private let descriptor: Int32

    /// The longest password, in bytes.
    private static let maximumBytes = 256

    /// Asks on the terminal, without echoing the input.
    init(asking question: String) throws {
        let password = try Self.ask(question)
        descriptor = unsafe open("/dev/shm", Self.temporaryFile | O_RDWR | O_CLOEXEC, 0o600)
        path = "/proc/self/fd/\(descriptor)"
        let written = unsafe password.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
        guard written == password.count else {
            throw CommandFailure(
                .tryAgainLater, "The password could not be read: \(DescriptorFailure(number: errno).reason).")
        }
    }

    /// The flag O_TMPFILE (open(2)), which makes an unnamed file. glibc declares it only with _GNU_SOURCE.
    private static let temporaryFile = O_DIRECTORY | 0o20_000_000

    deinit { close(descriptor) }

    private static func ask(_ question: String) throws -> SecretBytes {
        let terminal = unsafe open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard terminal >= 0 else {
            throw CommandFailure(.usage, "There is no terminal to ask for the password on: use --password-file.")
        }
        defer { close(terminal) }
        var before = termios()
        guard unsafe tcgetattr(terminal, &before) == 0 else {
            throw CommandFailure(.usage, "The terminal cannot be kept from showing the password: use --password-file.")
        }
        // Ctrl-C arrives as a byte, so that the terminal's settings can be restored.
        var silent = before
        silent.c_lflag &= ~tcflag_t(ECHO | ISIG)
        guard unsafe tcsetattr(terminal, TCSADRAIN, &silent) == 0 else {
            throw CommandFailure(.usage, "The terminal cannot be kept from showing the password: use --password-file.")
        }
        defer { unsafe tcsetattr(terminal, TCSADRAIN, &before) }
        try? Descriptor.write(Array("\(question): ".utf8), to: terminal)
        defer { try? Descriptor.write([UInt8(ascii: "\n")], to: terminal) }
        var secret = SecretBytes(count: maximumBytes + 1)
        var count = 0
        while count < secret.count {
            let position = count
            let got = unsafe secret.withUnsafeMutableBytes { bytes in
                unsafe read(terminal, bytes.baseAddress?.advanced(by: position), 1)
            }
            if got < 0, errno == EINTR { continue }
            let byte = unsafe secret.withUnsafeBytes { unsafe $0[position] }
            if got == 1, byte == 3 { throw CommandFailure(.no, "Interrupted; nothing was done.") }
            guard got == 1, byte != UInt8(ascii: "\n") else { break }
            count += 1
        }
        guard count > 0, count <= maximumBytes else {
            throw CommandFailure(.usage, "A password has 1 to \(maximumBytes) bytes.")
        }
        secret.shrink(to: count)
        return secret
    }
}
