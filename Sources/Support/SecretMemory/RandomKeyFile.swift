import Glibc

// Unsafe: The system calls use paths and buffers only until they return. The loops stay within their buffers: one fills
// the buffer that it lends, the other first checks that the text has two digits for each byte of the key.

/// A file with a random key of 32 bytes, as 64 hexadecimal digits on one line. Only its owner can read a file that
/// ``create()`` made.
public struct RandomKeyFile: Sendable, Equatable {
    /// The number of bytes of a key.
    public static let byteCount = 32

    /// The file's absolute path.
    public let path: String

    public init(path: String) {
        self.path = path
    }

    /// The reason why a file gave no key, and the remedy. It never contains the content.
    public enum Fault: Error, Sendable, Equatable, CustomStringConvertible {
        case unreadable(SecretFileError)
        case malformed(path: String)

        public var description: String {
            switch self {
            case .unreadable(let error): error.description
            case .malformed(let path):
                "the key's file \(path) does not have 64 hexadecimal digits on one line; make it with openssl rand -hex 32"
            }
        }
    }

    /// A system call that failed while a file was made.
    public struct SystemCallFault: Error, Sendable, CustomStringConvertible {
        public let call: String
        public let errorNumber: CInt

        public var description: String { "\(call): \(unsafe String(cString: strerror(errorNumber)))" }
    }

    public var exists: Bool { unsafe access(path, F_OK) == 0 }

    /// Returns the key: 32 bytes. ``SecretBytes/init(contentsOfFile:maximumCount:hasLines:)`` says which files it
    /// refuses.
    public func read() throws(Fault) -> SecretBytes {
        let text: SecretBytes
        do throws(SecretFileError) { text = try SecretBytes(contentsOfFile: path) } catch { throw .unreadable(error) }
        guard let key = Self.decodedKey(text) else { throw .malformed(path: path) }
        return key
    }

    /// Writes a random key to a temporary file, and renames that file to ``path``. After a failure, ``path`` therefore
    /// never names an incomplete file. The caller ensures that no other process creates the file at the same time.
    public func create() throws(SystemCallFault) {
        let temporaryPath = path + ".partial"
        let descriptor = unsafe open(temporaryPath, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SystemCallFault(call: "open", errorNumber: errno) }
        defer { close(descriptor) }
        let text = Self.randomText()
        let written = unsafe text.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
        guard written == text.count else { throw SystemCallFault(call: "write", errorNumber: errno) }
        guard fsync(descriptor) == 0 else { throw SystemCallFault(call: "fsync", errorNumber: errno) }
        guard unsafe rename(temporaryPath, path) == 0 else { throw SystemCallFault(call: "rename", errorNumber: errno) }
    }

    /// Returns 64 random hexadecimal digits and a newline.
    private static func randomText() -> SecretBytes {
        let digits = Array("0123456789abcdef".utf8)
        var generator = SystemRandomNumberGenerator()
        var text = SecretBytes(count: 2 * byteCount + 1)
        unsafe text.withUnsafeMutableBytes { text in
            for index in 0..<(2 * byteCount) {
                unsafe text[index] = digits[Int.random(in: 0..<16, using: &generator)]
            }
            unsafe text[2 * byteCount] = UInt8(ascii: "\n")
        }
        return text
    }

    private static func decodedKey(_ text: borrowing SecretBytes) -> SecretBytes? {
        guard text.count == 2 * byteCount else { return nil }
        var key = SecretBytes(count: byteCount)
        let isHexadecimal = unsafe key.withUnsafeMutableBytes { bytes in
            unsafe text.withUnsafeBytes { digits in
                var isHexadecimal = true
                for index in 0..<digits.count {
                    let value = unsafe Character(UnicodeScalar(digits[index])).hexDigitValue
                    isHexadecimal = isHexadecimal && value != nil
                    unsafe bytes[index / 2] = bytes[index / 2] << 4 | UInt8(value ?? 0)
                }
                return isHexadecimal
            }
        }
        guard isHexadecimal else { return nil }
        return key
    }
}
